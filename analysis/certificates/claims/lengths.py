"""Words of every length are answered right: each step between sets proved again, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}; the inverse of W is enclosed here. What is proved of a step
and of the iteration is in `analysis.certificates.iteration`.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from pydantic import NonNegativeInt

from analysis.certificates.arb.balls import Vector, apply, exact_vector, norm_bound, triangle
from analysis.certificates.certificate import Automaton, Number, Numbers, RefusedError, Work
from analysis.certificates.checking import Context
from analysis.certificates.iteration import (
    ITERATION_STATEMENTS,
    MODELS,
    AnswersChecker,
    IterationClaim,
    StepClaim,
    check_answers_of,
    check_iteration,
    work_of_steps,
)

OF_SETS = (
    "Set i holds the states s with |W (s - c)| <= radius (Euclidean norm), c its row of centres, W the "
    "upper triangular matrix of its row of metrics, row by row. The zero state lies in the first set, "
    "whose label is the initial state of the automaton."
)
STATEMENTS = {
    **ITERATION_STATEMENTS,
    "sets": OF_SETS,
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
    """Words of every length are answered right: a cover, and all that is claimed of its steps."""

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = STATEMENTS

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

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        return work_of_steps(self, context, sum(map(len, self.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the bundles of orbits, every step of every set, and the answers."""
        automaton = self.check_sizes(context)
        sets = [(number,) for number in range(len(self.labels))]
        self.check_steps(context, CoverChecker, automaton, sets, "set")

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


class Sets:
    """The sets of a cover {c + U u : ‖u‖₂ ≤ 1} with U = ρ W⁻¹, in the precision that is set."""

    def __init__(self, claim: Any, automaton: Automaton) -> None:
        self.claim, self.automaton = claim, automaton
        self.centres = claim.centres.reshape(len(claim.labels), -1)
        self._triangles = claim.metrics.reshape(len(claim.labels), -1)

    def metric(self, index: int) -> arb_mat:
        """Return W of a set."""
        return triangle(self._triangles[index], self.centres.shape[1])

    def axes(self, index: int) -> arb_mat:
        """Return U of a set; the first one has to hold the zero state."""
        radius = float(self.claim.radii[index])
        if not radius > 0:
            raise RefusedError(f"radii[{index}]", "is not positive")
        metric = self.metric(index)
        try:
            axes = metric.inv() * arb(radius)
        except ZeroDivisionError:
            raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None
        if index == 0 and not norm_bound(apply(metric, exact_vector(-self.centres[0]))) <= radius:
            raise RefusedError("centres[0]", "is not near the zero state")
        return axes

    def box(self, index: int) -> Vector:
        """Return a box that holds a set."""
        reach = [norm_bound(row) for row in self.axes(index).tolist()]
        centre = exact_vector(self.centres[index])
        return [entry + arb(0, far) for entry, far in zip(centre, reach, strict=True)]

    def target(self, index: int, token: int) -> tuple[int, int]:
        """Return the set that a token leads to, and its label, which is the automaton's."""
        target = self.claim.targets[index][token]
        label = self.automaton.table[self.claim.labels[index]][token]
        if target >= len(self.claim.labels) or self.claim.labels[target] != label:
            raise RefusedError(
                f"targets[{index}][{token}]", "is not a set of the state that the automaton is in"
            )
        return target, label


class CoverChecker(AnswersChecker):
    """Proves bundles of orbits and the steps of single sets again."""

    def check_step(self, index: int) -> None:  # type: ignore[override]
        """Check what every token makes of a set."""
        claim, sets = self.claim, Sets(self.claim, self.automaton)
        tokens = len(self.automaton.table[0])
        latents = claim.latents.reshape(len(claim.labels), tokens, -1)
        axes = sets.axes(index)
        for token in range(tokens):
            place, (target, label) = f"[{index}][{token}]", sets.target(index, token)
            step = StepClaim(
                token=token,
                centre=sets.centres[index],
                axes=axes,
                latent=latents[index, token],
                latent_radius=float(claim.latent_radii.reshape(-1, tokens)[index, token]),
                bundle=claim.bundle_of[index][token],
                target_centre=sets.centres[target],
                target_metric=sets.metric(target),
                answer=label,
                line=lambda field, place=place: field + place,  # type: ignore[misc]
            )
            reach, gaps = self.steps.check(step)
            if not reach <= float(claim.radii[target]):
                raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
            if not all(gap >= claim.margin for gap in gaps):
                raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")


def check_sets(claim: Any, automaton: Automaton, rows: Collection[str], numbers: Mapping[str, int]) -> None:
    """Verify that the arrays of a cover fit its sets, which begin with the initial state, and the margin.

    Each of ``rows`` has a number for every set and token, each of ``numbers`` so many for every set.
    """
    sets, (labels, tokens) = len(claim.labels), np.shape(automaton.table)
    if not sets or claim.labels[0] != automaton.initial_state:
        raise RefusedError("labels", "do not begin with the initial state of the automaton")
    if max(claim.labels) >= labels:
        raise RefusedError("labels", "are not states of the automaton")
    for name in rows:
        lists = getattr(claim, name)
        if len(lists) != sets or any(len(row) != tokens for row in lists):
            raise RefusedError(name, f"do not hold {tokens} numbers for each of {sets} sets")
    for name, size in numbers.items():
        if getattr(claim, name).size != sets * size:
            raise RefusedError(name, f"does not hold {size} numbers for each of {sets} sets")
    if not claim.margin > 0:
        raise RefusedError("margin", "is not positive")


def _check_sizes(claim: Lengths, automaton: Automaton, state: int, latent: int) -> None:
    tokens = len(automaton.table[0])
    numbers = {"centres": state, "metrics": state * (state + 1) // 2, "radii": 1}
    numbers |= {"latents": tokens * latent, "latent_radii": tokens}
    check_sets(claim, automaton, ("targets", "bundle_of"), numbers)
