"""Right answers to words of every length: each step between the sets of a cover proved again (FLINT).

A step is proved as in `analysis.certificates.claims.words`.

**Every length.** Each set of a cover leads into its targets; U = ρ W⁻¹, whose inverse is enclosed here.

**Explicit models.** By the mean value theorem ‖W' (s' − c')‖₂ ≤ ‖W' (G(c) − c')‖₂ + ‖W' J U‖₂ + ‖W'‖₂ η with
J enclosed over the set and η the error of a program's step, and the difference of two logits is at least that
at the centre, less ‖(v − v') J U‖₂ + ‖v − v'‖₂ η with v, v' rows of the head.

**Every start.** The simultaneous mode tends to the right answers from every start, by balls that hold all
images of Φ. That they are enough is the proposition of `implicit.enclosed.image_ball`; it is shown for every
state of a box, with distances of latents divided by the last norm's weights w. Nothing is shared with what
found the balls. With û = z (mean z² + ε)^{−½} and u what the block adds to its stream,

    û moves by at most r     an entry of the input projection moves by at most |its row| r, the row being
                             taken times the weights of the norm before the block,
    |∂û/∂z| ≤ 1 / λ,  |∂ŝ/∂s| ≤ 1 / N     λ and N the least (mean z² + ε)^½ and (mean s² + ε)^½ on the set,

and ∂u/∂û is enclosed over these entries by derivatives that are worked out layer by layer.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from analysis.certificates.arb.linear import (
    EPSILON,
    Rows,
    Vector,
    apply,
    exact_vector,
    max_upper,
    minus,
    norm_bound,
    plus,
    precision,
    scaled_to_unit,
    spectral_bound,
    triangle,
)
from analysis.certificates.arb.models import ArbElman, ArbModel, State
from analysis.certificates.certificate import (
    WEIGHTS_CONDITION,
    Automaton,
    Claim,
    Context,
    Number,
    Numbers,
    RefusedError,
    Verdict,
    Weights,
    Work,
    check_answers,
    check_each,
    statements,
)
from analysis.certificates.claims.words import (
    MODELS,
    AnswersChecker,
    IterationClaim,
    check_answers_of,
    check_iteration,
    work_of_steps,
)
from automata.checks import at_least

Array = NDArray[np.float64]


class CoverClaim(Claim):
    """The sets of a cover, a row each, and the sets that tokens lead to: see ``lengths.md``."""

    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    margin: Number


class Lengths(CoverClaim, IterationClaim):
    """Words of every length are answered right: a cover, and all that is claimed of its steps."""

    says: ClassVar[Mapping[str, str]] = statements("iteration", "lengths")

    kind: Literal["lengths"] = "lengths"
    latents: Numbers
    latent_radii: Numbers
    bundle_of: list[list[NonNegativeInt]]

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
        tokens, latent = len(automaton.table[0]), int(context.sizes["d_model"])
        numbers = {"latents": tokens * latent, "latent_radii": tokens}
        check_sets(self, automaton, state, ("targets", "bundle_of"), numbers)
        check_iteration(self, context.sizes, state=state, tokens=tokens)
        return automaton

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict, with the number of sets."""
        found = self.right("all words of every length", config)
        return Verdict(found.claim, (f"shown by: {len(self.labels)} sets of states", *found.conditions))


class Sets:
    """The sets of a cover {c + U u : ‖u‖₂ ≤ 1} with U = ρ W⁻¹, in the precision that is set."""

    def __init__(self, claim: CoverClaim, automaton: Automaton) -> None:
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
        """Check the step of every token from a set."""
        claim, sets = self.claim, Sets(self.claim, self.automaton)
        tokens = len(self.automaton.table[0])
        latents = claim.latents.reshape(len(claim.labels), tokens, -1)
        axes = sets.axes(index)
        for token in range(tokens):
            place, (target, label) = f"[{index}][{token}]", sets.target(index, token)
            radius = float(claim.latent_radii.reshape(-1, tokens)[index, token])
            reach, gaps = self.follow(
                lambda field, place=place: field + place,  # type: ignore[misc]
                token,
                (sets.centres[index], axes),
                (latents[index, token], radius, claim.bundle_of[index][token]),
                (sets.centres[target], sets.metric(target)),
                label,
            )
            if not reach <= float(claim.radii[target]):
                raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
            if not all(gap >= claim.margin for gap in gaps):
                raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")


def check_sets(
    claim: CoverClaim, automaton: Automaton, state: int, rows: Collection[str], numbers: Mapping[str, int]
) -> None:
    """Verify that the arrays of a cover fit its sets, which begin with the initial state, and the margin.

    A state has so many numbers. Each of ``rows`` has a number for every set and token, each of ``numbers`` so
    many for every set.
    """
    numbers = {"centres": state, "metrics": state * (state + 1) // 2, "radii": 1, **numbers}
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


ELMAN_WEIGHTS = {f"rnn.{kind}_l0" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
ELMAN_WEIGHTS |= {"embedding.weight", "head.weight", "head.bias"}
"""The names of all weights of a network of one layer."""


class ExplicitLengths(CoverClaim):
    """A cover of the states of an explicit model, and all that is claimed of its steps."""

    models: ClassVar[tuple[str, ...]] = ("elman",)
    says: ClassVar[Mapping[str, str]] = {
        **statements("explicit_lengths"),
        **{name: text for name, text in Lengths.says.items() if name.startswith("sets")},
    }

    kind: Literal["explicit_lengths"] = "explicit_lengths"
    step_error: Number

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        size = int(context.sizes.get("d_model", 0))
        one = float(30 * size**3 + context.weight_count)
        return Work(one * sum(map(len, self.targets)), 10.0 * size**2, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the first set holds the zero state, every step of every set, and the answers."""
        automaton, weights = check_answers(context, self.models), context.weights
        if set(weights) != ELMAN_WEIGHTS:
            raise RefusedError("config.sizes", "are not those of an Elman network of one layer")
        size = weights["rnn.weight_hh_l0"].shape[0]
        check_sets(self, automaton, size, ("targets",), {})
        if not self.step_error >= 0:
            raise RefusedError("step_error", "is negative")
        sets = [(number,) for number in range(len(self.labels))]
        check_each(context, SetChecker, (self, dict(weights), automaton, context.bits), sets, unit="set")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict, with the number of sets and what is not covered."""
        conditions = (
            f"shown by: {len(self.labels)} sets of states",
            f"arithmetic: exact, and any in which every next state is off by at most {self.step_error!r} and "
            "every logit by less than half the margin",
            WEIGHTS_CONDITION,
            "not covered: that a program is off by no more",
            f"margin: at least {at_least(self.margin)}",
        )
        return Verdict("the answers to all words of every length are right", conditions)


class SetChecker:
    """Proves the steps of single sets again."""

    def __init__(self, claim: ExplicitLengths, weights: Weights, automaton: Automaton, bits: int) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        self.sets = Sets(claim, automaton)
        with precision(bits):
            self.model = ArbElman(weights)

    def check(self, index: int) -> None:
        """Check the step of every token from a set."""
        with precision(self.bits):
            axes = self.sets.axes(index)
            for token in range(len(self.automaton.table[0])):
                self._check_step(index, token, axes)

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claim, sets = self.claim, self.sets
        target, answer = sets.target(index, token)
        after, slopes = self.model.step(token, exact_vector(sets.centres[index]), axes)
        metric, off = sets.metric(target), arb(claim.step_error)
        away = apply(metric, minus(after, exact_vector(sets.centres[target])))
        reach = norm_bound(away) + spectral_bound(metric * slopes)
        if not reach + spectral_bound(metric) * off <= float(claim.radii[target]):
            raise RefusedError(f"targets[{index}][{token}]", "the set is not proved to be mapped into it")
        logits, rows = self.model.logits(after), self.model.head.tolist()
        along = (self.model.head * slopes).tolist()
        for other in range(len(logits)):
            if other != answer:
                far, own = (norm_bound(minus(each[answer], each[other])) for each in (along, rows))
                if not logits[answer] - logits[other] - far - own * off >= claim.margin:
                    raise RefusedError(
                        "margin", f"is larger than what is proved of token {token} in set {index}"
                    )


class ArbImageBall:
    """A ball of latents around c, at a token and a box of states."""

    def __init__(self, model: ArbModel, token: int, state: State, centre: Vector, radius: arb) -> None:
        (self.layer,) = model.layers
        self.model, self.size = model, model.size
        self.injection = model.injection(token)
        self.window, self.h = state["conv.0"], state["ssm.0"]
        self.centre, self.radius = centre, radius
        self.target = [c / w for c, w in zip(centre, model.last_norm, strict=True)]
        self.scale = max_upper([abs(weight) for weight in model.last_norm])
        self.kept = self.scale if model.residual else arb(0)
        self.rows = [
            norm_bound([m * w for m, w in zip(row, self.layer.norm_before, strict=True)])
            for row in self.layer.in_proj.tolist()
        ]

    def holds_images(self) -> bool:
        """Return whether |Φ(z) − c| ≤ ρ is shown of all latents z that the last norm can give."""
        root, zero = arb(self.size).sqrt(), [arb(0)] * self.size
        added, slope = self._added(zero), self._slope(zero, root)
        moved = root * (self.kept + slope)
        away = minus(scaled_to_unit(added, [arb(1)] * self.size), self.target)
        return bool(norm_bound(away) + moved / self._least_root(added, moved) <= self.radius)

    def contracts(self) -> bool:
        """Return whether the norm of the derivative is shown to be below 1 on the ball."""
        far = self.scale * self.radius
        at_centre = (sum((z * z for z in self.centre), arb(0)) / self.size + EPSILON).sqrt()
        least = (at_centre - far / arb(self.size).sqrt()).lower()
        if not least > 0:
            return False
        turn = far / least
        read = scaled_to_unit(self.centre, [arb(1)] * self.size)
        added, slope = self._added(read), self._slope(read, turn)
        stream = plus(self.centre, added) if self.model.residual else added
        moved = self.kept * self.radius + slope * turn
        return bool((self.kept + slope * self.scale / least) / self._least_root(stream, moved) < 1)

    def _added(self, read: Vector) -> Vector:
        """The sum that the block adds to its stream at û = read."""
        inputs = [w * entry for w, entry in zip(self.layer.norm_before, read, strict=True)]
        found = self.layer.read(inputs, [[]] * self.size, self.injection, self.window)
        return self.layer.output(found, self.h, None)[0]

    def _slope(self, read: Vector, radius: arb) -> arb:
        """A bound of ‖∂u/∂û‖ where |û − read| ≤ radius."""
        before = self.layer.norm_before
        slopes: Rows = [[w if i == k else arb(0) for k in range(self.size)] for i, w in enumerate(before)]
        entering = [
            entry + arb(0, (row * radius).upper())
            for entry, row in zip(self.injection, self.rows, strict=True)
        ]
        inputs = [w * entry for w, entry in zip(before, read, strict=True)]
        found = self.layer.read(inputs, slopes, entering, self.window)
        _, along = self.layer.output(found, self.h, None)
        return spectral_bound(arb_mat(along))

    def _least_root(self, stream: Vector, moved: arb) -> arb:
        """The least (mean s² + ε)^½ within a distance of a stream."""
        middle = sum((entry.mid() ** 2 for entry in stream), arb(0)).sqrt()
        left = (middle - norm_bound([entry - entry.mid() for entry in stream]) - moved).lower()
        return ((left * left if left > 0 else arb(0)) / self.size + EPSILON).sqrt().lower()


class Starts(Claim):
    """The simultaneous mode tends to the same answers from every start: radii of balls around latents.

    The latents are those of the certificate's claim of every length, which it has to hold.
    """

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = statements("starts")

    kind: Literal["starts"] = "starts"
    image_radii: Numbers

    def work(self, context: Context) -> Work:
        """Bound the work: two evaluations for each set and token."""
        lengths = self._lengths(context)
        return work_of_steps(lengths, context, 2 * sum(map(len, lengths.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the balls; the claim of every length verifies the sets that they are about."""
        lengths = self._lengths(context)
        automaton, _ = check_answers_of(context)
        sets, tokens = len(lengths.labels), len(automaton.table[0])
        if self.image_radii.size != sets * tokens:
            raise RefusedError("image_radii", f"does not hold {sets * tokens} numbers, one per set and token")
        lengths.check_sizes(context)
        arguments = (self, lengths, dict(context.weights), context.sizes, automaton, context.bits)
        places = [(index, token) for index in range(sets) for token in range(tokens)]
        check_each(context, ImageBallChecker, arguments, places, unit="step")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict on the simultaneous mode."""
        conditions = (
            "simultaneous mode: in exact arithmetic and without end; its rounding, tolerance and limit of "
            "iterations are not covered",
            "starts: those whose latents z have sum (z_i / w_i)^2 <= d, w the weights of the last norm and d "
            "their number, zero among them",
        )
        return Verdict("the simultaneous mode tends to the same answers, from every start", conditions)

    @staticmethod
    def _lengths(context: Context) -> Lengths:
        for claim in context.claims:
            if isinstance(claim, Lengths):
                return claim
        raise RefusedError(
            "image_radii", "are around latents of a claim of every length, of which there is none"
        )


class ImageBallChecker:
    """Shows of single sets that Φ maps all latents into a ball in which it contracts."""

    def __init__(
        self,
        claim: Starts,
        lengths: Lengths,
        weights: Weights,
        sizes: Mapping[str, Any],
        automaton: Automaton,
        bits: int,
    ) -> None:
        self.bits = bits
        self.sets = Sets(lengths, automaton)
        self.radii = claim.image_radii.reshape(len(lengths.labels), -1)
        self.latents = lengths.latents.reshape(*self.radii.shape, -1)
        with precision(bits):
            self.model = ArbModel(weights, sizes)

    def check(self, index: int, token: int) -> None:
        """Check a set and a token."""
        with precision(self.bits):
            ball = ArbImageBall(
                self.model,
                token,
                self.model.state(self.sets.box(index)),
                exact_vector(self.latents[index, token]),
                arb(float(self.radii[index, token])),
            )
            line = f"image_radii[{index * self.radii.shape[1] + token}]"
            if not ball.holds_images():
                raise RefusedError(line, f"not all images of token {token} in set {index} are within it")
            if not ball.contracts():
                raise RefusedError(line, f"no contraction on it is shown of token {token} in set {index}")
