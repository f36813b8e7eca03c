"""Words of every length are answered right by an explicit model: each step between sets, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}. By the mean value theorem ‖W' (s' − c')‖₂ ≤ ‖W' (G(c) −
c')‖₂ + ‖W' J U‖₂ + ‖W'‖₂ η with J enclosed over the set and η the error of a program's step, and the
difference of two logits is at least that at the centre, less ‖(v − v') J U‖₂ + ‖v − v'‖₂ η with v, v' rows
of the head.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from flint import arb, arb_mat
from pydantic import NonNegativeInt

from analysis.certificates.arb.balls import (
    apply,
    exact_vector,
    norm_bound,
    precision,
    spectral_bound,
    triangle,
)
from analysis.certificates.arb.elman import WEIGHTS, ArbElman
from analysis.certificates.certificate import Automaton, Claim, Number, Numbers, RefusedError, Work, at_least
from analysis.certificates.checking import Context, Weights, check_answers, check_each, check_sets

STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state is all parts of the model's state one after the other; "
        "it is zero before the first token."
    ),
    "sets": (
        "Set i holds the states s with |W (s - c)| <= radius (Euclidean norm), c its row of centres, W the "
        "upper triangular matrix of its row of metrics, row by row. The zero state lies in the first set, "
        "whose label is the initial state of the automaton."
    ),
    "step": (
        "Token x leads from every state of set i into set targets[i][x], whose label is the state of the "
        "automaton after x from the label of i; and so does every step whose next state is off by at most "
        "step_error (Euclidean norm)."
    ),
    "margin": (
        "At that next state the logit of that label exceeds every other by at least margin > 0. By induction "
        "the answers to words of every length are right. That a program is off by no more than step_error is "
        "not claimed."
    ),
}
AT_ONCE = 16


class ExplicitLengths(Claim):
    """A cover of the states of an explicit model, and all that is claimed of its steps.

    Example:
        >>> list(ExplicitLengths.model_fields)[-2:]
        ['step_error', 'margin']
    """

    models: ClassVar[tuple[str, ...]] = ("elman",)

    kind: Literal["explicit_lengths"] = "explicit_lengths"
    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    step_error: Number
    margin: Number

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003
        """Return the same for every run."""
        return STATEMENTS

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        size = int(context.sizes.get("d_model", 0))
        one = float(30 * size**3 + sum(part.size for part in context.weights.values()))
        return Work(one * sum(map(len, self.targets)), 10.0 * size**2, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the first set holds the zero state, every step of every set, and the answers."""
        automaton, weights = check_answers(context, self.models), context.weights
        if set(weights) != WEIGHTS:
            raise RefusedError("config.sizes", "are not those of an Elman network of one layer")
        size = weights["rnn.weight_hh_l0"].shape[0]
        numbers = {"centres": size, "metrics": size * (size + 1) // 2, "radii": 1}
        check_sets(self, automaton, ("targets",), numbers)
        if not self.step_error >= 0:
            raise RefusedError("step_error", "is negative")
        check_each(
            SetChecker,
            (self, dict(weights), automaton, context.bits),
            SetChecker.check,
            [(number,) for number in range(len(self.labels))],
            processes=context.processes,
            unit="set",
            at_once=AT_ONCE,
        )

    def verdict(self, config: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return by how many sets it is shown, and what it is not about."""
        return (
            f"the answers to all words of every length are right, by {len(self.labels)} sets of states, in "
            f"exact arithmetic and if every next state is off by at most {self.step_error!r}, with a margin "
            f"of at least {at_least(self.margin)}, of the model with its weights the exact numbers that they "
            "are; that a program is off by no more is not covered"
        )


class SetChecker:
    """Proves the steps of single sets again.

    Args:
        claim: what is claimed; its arrays have the right sizes.
        weights: the state dict of the run.
        automaton: of the task.
        bits: the precision.

    Example:
        `ExplicitLengths.check` makes one.
    """

    def __init__(self, claim: ExplicitLengths, weights: Weights, automaton: Automaton, bits: int) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        count = len(claim.labels)
        self.centres = claim.centres.reshape(count, -1)
        self.triangles = claim.metrics.reshape(count, -1)
        with precision(bits):
            self.model = ArbElman(weights)

    def check(self, index: int) -> None:
        """Check what every token makes of a set, and that the first one holds the zero state.

        Raises:
            RefusedError: naming the first line that fails.
        """
        with precision(self.bits):
            radius = float(self.claim.radii[index])
            if not radius > 0:
                raise RefusedError(f"radii[{index}]", "is not positive")
            metric = self._metric(index)
            try:
                axes = metric.inv() * arb(radius)
            except ZeroDivisionError:
                raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None
            if index == 0 and not norm_bound(apply(metric, exact_vector(-self.centres[0]))) <= radius:
                raise RefusedError("centres[0]", "is not near the zero state")
            for token in range(len(self.automaton.table[0])):
                self._check_step(index, token, axes)

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claim, line = self.claim, f"targets[{index}][{token}]"
        target, answer = claim.targets[index][token], self.automaton.table[claim.labels[index]][token]
        if target >= len(claim.labels) or claim.labels[target] != answer:
            raise RefusedError(line, "is not a set of the state that the automaton is in")
        after, slopes = self.model.step(token, exact_vector(self.centres[index]), axes)
        metric, off = self._metric(target), arb(claim.step_error)
        away = [a - b for a, b in zip(after, exact_vector(self.centres[target]), strict=True)]
        reach = norm_bound(apply(metric, away)) + spectral_bound(metric * slopes)
        if not reach + spectral_bound(metric) * off <= float(claim.radii[target]):
            raise RefusedError(line, "the set is not proved to be mapped into it")
        logits, rows = self.model.logits(after), self.model.head.tolist()
        along = (self.model.head * slopes).tolist()
        for other in range(len(logits)):
            if other != answer:
                far, own = (
                    norm_bound([a - b for a, b in zip(each[answer], each[other], strict=True)])
                    for each in (along, rows)
                )
                if not logits[answer] - logits[other] - far - own * off >= claim.margin:
                    raise RefusedError(
                        "margin", f"is larger than what is proved of token {token} in set {index}"
                    )

    def _metric(self, index: int) -> arb_mat:
        return triangle(self.triangles[index], self.model.size)
