"""Words of every length are answered right: each step between sets proved again, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}; the inverse of W is enclosed here. What is proved of a step
and of the iteration is in `analysis.certificates.iteration`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from flint import arb, arb_mat
from pydantic import NonNegativeInt

from analysis.certificates.arb.balls import Vector, apply, exact_vector, norm_bound, precision, triangle
from analysis.certificates.certificate import Automaton, Number, Numbers, RefusedError, Work
from analysis.certificates.checking import Context, Weights, check_each, check_sets
from analysis.certificates.iteration import (
    ITERATION_STATEMENTS,
    MODELS,
    IterationClaim,
    StepChecker,
    StepClaim,
    check_answers_of,
    check_iteration,
    work_of_steps,
)

STATEMENTS = {
    **ITERATION_STATEMENTS,
    "sets": (
        "Set i holds the states s with |W (s - c)| <= radius (Euclidean norm), c its row of centres, W the "
        "upper triangular matrix of its row of metrics, row by row. The zero state lies in the first set, "
        "whose label is the initial state of the automaton."
    ),
    "existence": (
        "For every state of set i and every token x the self-map has exactly one fixed point within entry "
        "(i, x) of latent_radii of the row (i, x) of latents (maximum norm). Set and fixed points lie in "
        "bundle bundle_of[i][x], so that the iteration stops near them."
    ),
    "step": (
        "With the latent at which the iteration stops token x leads from every state of set i into set "
        "targets[i][x], whose label is the state of the automaton after x from the label of i."
    ),
    "margin": (
        "There the logit of that label exceeds every other by at least margin > 0. By induction the answers "
        "to words of every length are right."
    ),
}


class Lengths(IterationClaim):
    """Words of every length are answered right: a cover, and all that is claimed of its steps.

    Example:
        >>> list(Lengths.model_fields)[-2:]
        ['bundle_of', 'margin']
    """

    models: ClassVar[tuple[str, ...]] = MODELS

    kind: Literal["lengths"] = "lengths"
    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    latents: Numbers
    latent_radii: Numbers
    bundle_of: list[list[NonNegativeInt]]
    margin: Number

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003
        """Return the same for every run."""
        return STATEMENTS

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        return work_of_steps(self, context, sum(map(len, self.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the bundles of orbits, every step of every set, and the answers."""
        automaton = self.check_sizes(context)
        jobs = [("bundle", number) for number in range(len(self.bundles.tokens))]
        jobs += [("set", number) for number in range(len(self.labels))]
        check_each(
            CoverChecker,
            (self, dict(context.weights), context.sizes, automaton, context.bits),
            CoverChecker.check,
            jobs,
            processes=context.processes,
            unit="set",
            at_once=SETS_AT_ONCE,
        )

    def check_sizes(self, context: Context) -> Automaton:
        """Verify that arrays hold what they should; return the automaton."""
        automaton, state = check_answers_of(context)
        _check_sizes(self, automaton, state, int(context.sizes["d_model"]))
        check_iteration(self, context.sizes, state=state, tokens=len(automaton.table[0]))
        return automaton

    def verdict(self, config: Mapping[str, Any]) -> str:
        """Return by how many sets it is shown."""
        words = f"all words of every length are right, by {len(self.labels)} sets of states"
        return self.right(words, self.margin, config)


SETS_AT_ONCE = 16


class CoverChecker:
    """Proves bundles of orbits and the steps of single sets again.

    Args:
        claim: what is claimed; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        automaton: of the task.
        bits: the precision.

    Example:
        `Lengths.check` makes one.
    """

    def __init__(
        self, claim: Lengths, weights: Weights, sizes: Mapping[str, Any], automaton: Automaton, bits: int
    ) -> None:
        self.claims, self.automaton, self.bits = claim, automaton, bits
        count, tokens = len(claim.labels), len(automaton.table[0])
        self.centres = claim.centres.reshape(count, -1)
        self.size = self.centres.shape[1]
        self.triangles = claim.metrics.reshape(count, -1)
        self.latents = claim.latents.reshape(count, tokens, -1)
        self.latent_radii = claim.latent_radii.reshape(count, tokens)
        with precision(bits):
            self.steps = StepChecker(claim, weights, sizes, bits)

    def check(self, kind: str, index: int) -> None:
        """Check a bundle of orbits, or a set and what every token makes of it.

        Args:
            kind: ``"bundle"`` or ``"set"``.
            index: which.

        Raises:
            RefusedError: naming the first line that fails.
        """
        if kind == "bundle":
            self.steps.orbits.check_bundle(index)
            return
        with precision(self.bits):
            axes, radius = self.axes(index), float(self.claims.radii[index])
            if (
                index == 0
                and not norm_bound(apply(self._metric(0), exact_vector(-self.centres[0]))) <= radius
            ):
                raise RefusedError("centres[0]", "is not near the zero state")
            for token in range(self.latents.shape[1]):
                self._check_step(index, token, axes)

    def axes(self, index: int) -> arb_mat:
        """Return U of a set.

        Raises:
            RefusedError: if it has none.
        """
        radius = float(self.claims.radii[index])
        if not radius > 0:
            raise RefusedError(f"radii[{index}]", "is not positive")
        try:
            return self._metric(index).inv() * arb(radius)
        except ZeroDivisionError:
            raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None

    def box(self, index: int) -> Vector:
        """Return a box that holds a set, in the precision that is set.

        Raises:
            RefusedError: if the set has no axes.
        """
        reach = [norm_bound(row) for row in self.axes(index).tolist()]
        centre = exact_vector(self.centres[index])
        return [entry + arb(0, far) for entry, far in zip(centre, reach, strict=True)]

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claims = self.claims
        place = f"[{index}][{token}]"
        target = claims.targets[index][token]
        label = self.automaton.table[claims.labels[index]][token]
        if target >= len(claims.labels) or claims.labels[target] != label:
            raise RefusedError(f"targets{place}", "is not a set of the state that the automaton is in")
        claim = StepClaim(
            token=token,
            centre=self.centres[index],
            axes=axes,
            latent=self.latents[index, token],
            latent_radius=float(self.latent_radii[index, token]),
            bundle=claims.bundle_of[index][token],
            target_centre=self.centres[target],
            target_metric=self._metric(target),
            answer=label,
            line=lambda field: field + place,
        )
        reach, gaps = self.steps.check(claim)
        if not reach <= float(claims.radii[target]):
            raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
        if not all(gap >= claims.margin for gap in gaps):
            raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")

    def _metric(self, index: int) -> arb_mat:
        return triangle(self.triangles[index], self.size)


def _check_sizes(claim: Lengths, automaton: Automaton, state: int, latent: int) -> None:
    tokens = len(automaton.table[0])
    numbers = {"centres": state, "metrics": state * (state + 1) // 2, "radii": 1}
    numbers |= {"latents": tokens * latent, "latent_radii": tokens}
    check_sets(claim, automaton, ("targets", "bundle_of"), numbers)
