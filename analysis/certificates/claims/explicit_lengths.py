"""Words of every length are answered right by an explicit model: each step between sets, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}. By the mean value theorem ‖W' (s' − c')‖₂ ≤ ‖W' (G(c) −
c')‖₂ + ‖W' J U‖₂ + ‖W'‖₂ η with J enclosed over the set and η the error of a program's step, and the
difference of two logits is at least that at the centre, less ‖(v − v') J U‖₂ + ‖v − v'‖₂ η with v, v' rows
of the head.

An Elman network is h' = tanh(W e(x) + b + U h + c), evaluated from the stored weights.

Over an ellipsoid {m + A u : ‖u‖₂ ≤ 1} entry i of the argument lies within ‖(U A)_i‖₂ of that at m, and the
derivative of h' along u is diag(1 − tanh²) U A there.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from analysis.certificates.arb.balls import (
    Vector,
    apply,
    exact_matrix,
    exact_vector,
    norm_bound,
    precision,
    spectral_bound,
)
from analysis.certificates.certificate import Automaton, Claim, Number, Numbers, RefusedError, Work, at_least
from analysis.certificates.checking import Context, Weights, check_answers, check_each
from analysis.certificates.claims.lengths import OF_SETS, Sets, check_sets

WEIGHTS = {f"rnn.{kind}_l0" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
WEIGHTS |= {"embedding.weight", "head.weight", "head.bias"}
"""All that a network of one layer has."""


class ArbElman:
    """The step and the logits of an Elman network."""

    def __init__(self, weights: Mapping[str, NDArray[np.floating[Any]]]) -> None:
        self.hidden = exact_matrix(weights["rnn.weight_hh_l0"])
        self.head, self._head_bias = exact_matrix(weights["head.weight"]), exact_vector(weights["head.bias"])
        self.size, self.tokens = self.hidden.nrows(), len(weights["embedding.weight"])
        inputs = exact_matrix(weights["rnn.weight_ih_l0"])
        biases = [exact_vector(weights[f"rnn.bias_{kind}_l0"]) for kind in ("ih", "hh")]
        self._read = [
            [a + b + c for a, b, c in zip(apply(inputs, exact_vector(row)), *biases, strict=True)]
            for row in weights["embedding.weight"]
        ]

    def step(self, token: int, centre: Vector, axes: arb_mat) -> tuple[Vector, arb_mat]:
        """Return h' at the centre of an ellipsoid, and the derivative along its axes over all of it."""
        along = self.hidden * axes
        middle = [a + b for a, b in zip(self._read[token], apply(self.hidden, centre), strict=True)]
        slopes = []
        for number, row in zip(middle, along.tolist(), strict=True):
            bent = (number + arb(0, norm_bound(row))).tanh()
            slopes.append([(1 - bent) * (1 + bent) * entry for entry in row])
        return [number.tanh() for number in middle], arb_mat(slopes)

    def logits(self, state: Vector) -> Vector:
        """Return what a state is read as."""
        return [a + b for a, b in zip(apply(self.head, state), self._head_bias, strict=True)]


STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state is all parts of the model's state one after the other; "
        "it is zero before the first token."
    ),
    "sets": OF_SETS,
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


class ExplicitLengths(Claim):
    """A cover of the states of an explicit model, and all that is claimed of its steps."""

    models: ClassVar[tuple[str, ...]] = ("elman",)
    says: ClassVar[Mapping[str, str]] = STATEMENTS

    kind: Literal["explicit_lengths"] = "explicit_lengths"
    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    step_error: Number
    margin: Number

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
        sets = [(number,) for number in range(len(self.labels))]
        check_each(context, SetChecker, (self, dict(weights), automaton, context.bits), sets, unit="set")

    def verdict(self, config: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return by how many sets it is shown, and what it is not about."""
        return (
            f"the answers to all words of every length are right, by {len(self.labels)} sets of states, in "
            f"exact arithmetic and if every next state is off by at most {self.step_error!r}, with a margin "
            f"of at least {at_least(self.margin)}, of the model with its weights the exact numbers that they "
            "are; that a program is off by no more is not covered"
        )


class SetChecker:
    """Proves the steps of single sets again."""

    def __init__(self, claim: ExplicitLengths, weights: Weights, automaton: Automaton, bits: int) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        self.sets = Sets(claim, automaton)
        with precision(bits):
            self.model = ArbElman(weights)

    def check(self, index: int) -> None:
        """Check what every token makes of a set."""
        with precision(self.bits):
            axes = self.sets.axes(index)
            for token in range(len(self.automaton.table[0])):
                self._check_step(index, token, axes)

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claim, sets = self.claim, self.sets
        target, answer = sets.target(index, token)
        after, slopes = self.model.step(token, exact_vector(sets.centres[index]), axes)
        metric, off = sets.metric(target), arb(claim.step_error)
        away = [a - b for a, b in zip(after, exact_vector(sets.centres[target]), strict=True)]
        reach = norm_bound(apply(metric, away)) + spectral_bound(metric * slopes)
        if not reach + spectral_bound(metric) * off <= float(claim.radii[target]):
            raise RefusedError(f"targets[{index}][{token}]", "the set is not proved to be mapped into it")
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
