"""Predictors of reveals, sequences on which they are worst, and what no function of the marginals can avoid.

The error at a reveal is KL(exact ‖ predicted) in nats: the expected excess of the log-loss, given the
history. A search goes through histories that can occur: every token, and at a reveal every value of
positive probability. Two histories with one P and different distributions r ≠ r' of a reveal make every
function of P wrong by the divergence radius R(r, r') on one of them (Theorem 9 of ``docs/belief.md``);
``automata.probabilistic.scope`` finds such pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from automata.checks import check_integer
from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from automata.probabilistic.scope import Confusion
from theory.belief.filters import BayesFilter
from theory.belief.reachable import FloatArray, outcomes


def divergence(exact: ArrayLike, predicted: ArrayLike) -> float:
    """Return KL(exact ‖ predicted) in nats; infinity where something possible is held for impossible.

    Example:
        >>> round(divergence([1, 0], [0.8, 0.2]), 4), divergence([0.5, 0.5], [1, 0])
        (0.2231, inf)
    """
    p, q = np.asarray(exact, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    possible = p > 0
    if (q[possible] <= 0).any():
        return float("inf")
    # written out: that of scipy differs in the last place, by which a search with a beam decides ties
    return float(max(0.0, (p[possible] * np.log(p[possible] / q[possible])).sum()))


def divergence_radius(first: ArrayLike, second: ArrayLike) -> float:
    """Return min_q max(KL(r ‖ q), KL(r' ‖ q)), in nats: the capacity of the channel with these two rows.

    By bisection: along q = λ r + (1 − λ) r' the first divergence falls and the second grows, and the best q
    is on that line, where they are equal.

    Example:
        >>> round(divergence_radius([1, 0], [0.5, 0.5]), 12), round(float(np.log(5 / 4)), 12)
        (0.223143551314, 0.223143551314)
    """
    r, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    low, high = 0.0, 1.0
    for _ in range(100):  # halves the interval to below the rounding of float64
        middle = (low + high) / 2
        q = middle * r + (1 - middle) * other
        low, high = (middle, high) if divergence(r, q) > divergence(other, q) else (low, middle)
    return divergence(r, high * r + (1 - high) * other)


def confusion_radius(confusion: Confusion) -> float:
    """Return R of theorem 9, the largest over the variables that may be asked after a confusion.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> from automata.probabilistic.scope import marginal_scope
        >>> automaton = lazy_swaps(4, 0.5)
        >>> names = automaton.reveals[1:]
        >>> found = marginal_scope(automaton, names, 4, [*automaton.actions, *names]).confusion
        >>> round(confusion_radius(found), 4)
        0.2231
    """
    radii = []
    rows = zip(confusion.first_marginal, confusion.second_marginal, strict=True)
    for first, second in rows:
        radii.append(divergence_radius([float(p) for p in first], [float(p) for p in second]))
    return max(radii)


State = TypeVar("State")


class Predictor(Protocol[State]):
    """Something with a state that follows tokens and predicts what a reveal will show."""

    def start(self) -> State:
        """Return the state before the first token."""

    def step(self, state: State, token: int, value: int) -> State:
        """Return the state after a token, with the value that it shows, ``NO_VALUE`` at an action."""

    def probabilities(self, state: State, token: int) -> FloatArray:
        """Return the distribution of the value that this reveal will show, ``[values]``."""


class LinearPredictor:
    """The unnormalised joint filter in a floating-point format, normalised where it is read.

    Once the state has underflowed it predicts a uniform distribution.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> predictor = LinearPredictor(noisy_parity(0.25), torch.float16)
        >>> state = predictor.step(predictor.start(), 1, -1)
        >>> predictor.probabilities(state, 2).tolist()
        [0.25, 0.75]
    """

    def __init__(self, automaton: ProbabilisticAutomaton, dtype: torch.dtype) -> None:
        self.automaton = automaton
        self.filter = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
        self.operators = self.filter.operators.to(dtype)

    def start(self) -> Tensor:
        """Return b₀."""
        return self.filter.initial.to(self.operators.dtype)

    def step(self, state: Tensor, token: int, value: int) -> Tensor:
        """Return N_y b̃."""
        (observed,) = self.filter.observations([[token]], [[value]])[0].tolist()
        return (self.operators[observed] * state).sum(dim=-1)

    def probabilities(self, state: Tensor, token: int) -> FloatArray:
        """Return the masses of the values, divided by their sum."""
        reading = self.automaton.readings[token - len(self.automaton.actions)]
        masses = np.bincount(reading, state.double().numpy())
        total = masses.sum()
        return masses / total if total > 0 else np.full(len(masses), 1 / len(masses))


class MarginalPredictor:
    """The marginal filter with a rule for partial reveals; it predicts the reveals that are its variables.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> automaton = lazy_swaps(3, 0.25)
        >>> predictor = MarginalPredictor(MarginalFilter(automaton, automaton.reveals[1:], "balance"))
        >>> state = predictor.step(predictor.start(), 0, -1)
        >>> predictor.probabilities(state, automaton.encode(["variable 1"])[0]).tolist()
        [0.75, 0.25, 0.0]
    """

    def __init__(self, filtered: MarginalFilter) -> None:
        self.filtered = filtered

    def start(self) -> FloatArray:
        """Return P before the first token."""
        return self.filtered.initial

    def step(self, state: FloatArray, token: int, value: int) -> FloatArray:
        """Return P after the token."""
        return self.filtered.step(state, token, value)

    def probabilities(self, state: FloatArray, token: int) -> FloatArray:
        """Return the row of the variable, in the order of the values of its reveal."""
        automaton = self.filtered.automaton
        name = automaton.token_names[token]
        if name not in self.filtered.variables:
            raise InputError(f"reveal {name!r} is none of the variables {list(self.filtered.variables)}")
        columns = [self.filtered.value_names.index(value) for value in automaton.value_names[name]]
        return np.asarray(state[self.filtered.variables.index(name), columns])


@dataclass(frozen=True)
class WorstSequence:
    """A history and what a predictor's errors are along it.

    Attributes:
        observations: (token, value), the value ``NO_VALUE`` at an action.
        errors: KL at each reveal, in nats.
    """

    observations: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]

    @property
    def total(self) -> float:
        """The sum of the errors."""
        return float(sum(self.errors))


@dataclass(frozen=True, eq=False)
class _Candidate(Generic[State]):
    history: WorstSequence
    belief: FloatArray
    state: State


def worst_sequence(
    automaton: ProbabilisticAutomaton,
    predictor: Predictor[State],
    length: int,
    beam: int | None = None,
    tokens: Sequence[str] | None = None,
) -> WorstSequence:
    """Return the history of a length along which the errors of a predictor sum to most.

    The search ends at the first infinite error: at a value that occurs and was held for impossible.
    InputError if the length or the beam is below 1, or a token is unknown.

    Histories have ``length`` tokens from ``tokens``, all if None. ``beam`` histories are kept at each length,
    those with the largest sums; all if None, which is exhaustive. With a beam the result is a history that is
    so bad, not the worst: errors that take a long preparation, such as underflow, are not seen coming
    (``worst_case`` finds those).

    Example:
        What a rule for partial reveals gets wrong within four tokens, log(3/2):

        >>> from automata.probabilistic import MarginalFilter, lazy_swaps
        >>> from theory.belief.adversary import MarginalPredictor
        >>> automaton = lazy_swaps(3, 0.5)
        >>> names = automaton.reveals[1:]
        >>> predictor = MarginalPredictor(MarginalFilter(automaton, names, "condition"))
        >>> worst = worst_sequence(automaton, predictor, 4, tokens=[*automaton.actions, *names])
        >>> " ".join(automaton.token_names[token] for token, _ in worst.observations)
        'swap 1 2 swap 1 3 variable 1 variable 3'
        >>> [round(error, 4) for error in worst.errors]
        [0.0, 0.4055]
    """
    check_integer("length", length, 1)
    if beam is not None:
        check_integer("beam", beam, 1)
    allowed = automaton.encode(automaton.token_names if tokens is None else tokens).tolist()
    kept = [_Candidate(WorstSequence((), ()), np.array(automaton.initial), predictor.start())]
    for _ in range(length):
        longer = [
            after
            for one in kept
            for token in allowed
            for after in _extended(automaton, predictor, one, token)
        ]
        endless = [one.history for one in longer if one.history.total == float("inf")]
        if endless:
            return endless[0]
        kept = [
            replace(one, state=predictor.step(one.state, *one.history.observations[-1]))
            for one in sorted(longer, key=lambda one: -one.history.total)[:beam]
        ]
    return kept[0].history


def _extended(
    automaton: ProbabilisticAutomaton, predictor: Predictor[State], one: _Candidate[State], token: int
) -> list[_Candidate[State]]:
    """Return a candidate for each value of a token, with the state before it, as most are not kept."""
    found = list(outcomes(automaton, one.belief, token))
    errors = one.history.errors
    if token >= len(automaton.actions):
        predicted = predictor.probabilities(one.state, token)
        exact = np.zeros(len(predicted))
        for value, mass, _ in found:
            exact[value] = mass
        errors = (*errors, divergence(exact, predicted))
    return [
        _Candidate(WorstSequence((*one.history.observations, (token, value)), errors), belief, one.state)
        for value, _, belief in found
    ]


def sequence_errors(
    automaton: ProbabilisticAutomaton, predictor: Predictor[State], history: Sequence[tuple[str, str]]
) -> list[float]:
    """Return the error at each reveal of a history given by names: (token, value), the value "" at an action.

    The value of the last reveal may be "", too: it is asked, and not shown. InputError if a name is unknown,
    or a value cannot occur.

    Example:
        >>> from automata.probabilistic import MarginalFilter, lazy_swaps
        >>> from theory.belief.adversary import MarginalPredictor
        >>> automaton = lazy_swaps(3, 0.5)
        >>> predictor = MarginalPredictor(MarginalFilter(automaton, automaton.reveals[1:], "condition"))
        >>> history = [("swap 1 2", ""), ("swap 1 3", ""), ("variable 1", "1"), ("variable 3", "")]
        >>> [round(error, 4) for error in sequence_errors(automaton, predictor, history)]
        [0.0, 0.4055]
    """
    belief, state, errors = np.array(automaton.initial), predictor.start(), []
    for position, (name, shows) in enumerate(history):
        (token,) = automaton.encode([name]).tolist()
        found = {value: (mass, after) for value, mass, after in outcomes(automaton, belief, token)}
        value = NO_VALUE
        if token >= len(automaton.actions):
            predicted = predictor.probabilities(state, token)
            errors.append(divergence([found.get(k, (0.0,))[0] for k in range(len(predicted))], predicted))
            if shows == "" and position == len(history) - 1:
                break
            names = automaton.value_names[name]
            value = names.index(shows) if shows in names else NO_VALUE
        if value not in found:
            raise InputError(f"history shows {shows!r} at position {position}; give a value that can occur")
        belief, state = found[value][1], predictor.step(state, token, value)
    return errors
