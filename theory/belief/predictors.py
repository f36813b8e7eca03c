"""What predicts the value of a reveal: the linear filter in a format, the marginal filter, or your own."""

from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from theory.belief.filters import BayesFilter
from theory.belief.token_source import FloatArray

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
