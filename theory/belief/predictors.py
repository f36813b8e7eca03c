"""Predictors of the value of a reveal: the linear filter in a format, the marginal filter, or your own."""

from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.probabilistic.scope import Confusion
from theory.belief.filters import BayesFilter
from theory.belief.reachable import FloatArray


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
