"""Sequences on which a predictor of reveals is worst, and what no function of the marginals can avoid.

The error at a reveal is KL(exact ‖ predicted) in nats: the expected excess of the log-loss, given the
history. A search goes through histories that can occur: every token, and at a reveal every value of
positive probability.

**Theorem 9 (two histories with one marginal).** *Let two histories w and w', each from a known arrangement,
have the same P; let y be possible after both, and let a reveal asked after y have the exact distributions r
and r'. Then a predictor whose state after w and w' is a function of P predicts one distribution q after
both, and max(KL(r ‖ q), KL(r' ‖ q)) ≥ R(r, r') > 0 for r ≠ r', where R, the divergence radius, is the
capacity of the channel with the rows r and r'. If a full reveal follows, and values may be renamed, this
repeats for ever: for every such predictor there is a sequence with an error of at least R in every round,
and it does not help the predictor to know the construction.*

*Proof.* q is the same, as the state is. min_q max(KL(r ‖ q), KL(r' ‖ q)) is the capacity (Gallager,
Ryabko), above 0 unless r = r'. After the full reveal the arrangement is known, and w, w' act on positions:
with values renamed they have one P again. In each round the adversary takes the worse of both. ∎ If he
chooses by a fair coin in advance, the expected error per round is at least their Jensen–Shannon divergence.

On three variables with a hidden rotation (each of three with probability ⅓), and a hidden swap of
probability ½ or not, r = (1) and r' = (½, ½): R = log(5/4) = 0.223 nats. ``automata.probabilistic.scope``
finds such pairs.

**Theorem 10 (bounded affine states).** *Take the coin of ``unknown_coin``, p ≠ ½. Let h ← A_y h + c_y in
ℝᵈ, with y "heads" or "tails", have states that stay bounded over all sequences, and predict by a uniformly
continuous function of h. Then for every ε > 0 there are sequences after which it predicts the same within
ε, where the exact probabilities of heads differ by |2p − 1| − ε: it is wrong by a constant on one of them.*

*Proof.* Let V be the span of the differences of reachable states, and A_T the matrix of tails. A_T^m(h −
h') is a difference of reachable states if h − h' is; these span V, which is of finite dimension, so ‖A_T^m‖
≤ C on V for all m. The states after k heads, k = 1, 2, …, are bounded, so for every δ there are k and k' ≥
k + 2n with |h_k − h_k'| < δ. Append m = k + n tails: the states are within C δ, whereas heads minus tails
are −n and at least n, where the exact probabilities of heads tend to min(p, 1 − p) and max(p, 1 − p) as n
grows. ∎ The normalised filter is bounded, with a linear readout, and exact in real numbers: so this is what
a non-linear update gains. (In floats its smaller entry underflows, too, at |heads − tails| · log(p/(1−p))
beyond the range.) The unnormalised one escapes by not being bounded away from 0, where normalisation is not
uniformly continuous.

*Not settled:* the same for hidden swaps, where beliefs do not need an unbounded count; and where the filter
forgets, a shift register of the last k tokens is a bounded linear RNN, of dimension exponential in k, that
is as close as one likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from theory.belief.belief_chain import outcomes
from theory.belief.filters import BayesFilter
from theory.belief.token_source import FloatArray

State = TypeVar("State")


class Predictor(Protocol[State]):
    """Something with a state that follows tokens and predicts what a reveal will show."""

    def start(self) -> State:
        """Return the state before the first token."""
        ...

    def step(self, state: State, token: int, value: int) -> State:
        """Return the state after a token, with the value that it shows, ``NO_VALUE`` at an action."""
        ...

    def probabilities(self, state: State, token: int) -> FloatArray:
        """Return the distribution of the value that this reveal will show, ``[values]``."""
        ...


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
    belief: FloatArray
    state: State
    observations: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]
    total: float


def worst_sequence(
    automaton: ProbabilisticAutomaton,
    predictor: Predictor[State],
    length: int,
    beam: int | None = None,
    tokens: Sequence[str] | None = None,
) -> WorstSequence:
    """Return the history of a length along which the errors of a predictor sum to most.

    The search ends at the first infinite error: at a value that occurs and was held for impossible.

    Args:
        automaton: which says what can occur, and the exact predictions.
        predictor: what is searched against.
        length: tokens.
        beam: how many histories are kept at each length, those with the largest sums; all if None, which is
            exhaustive. With a beam the result is a history that is so bad, not the worst: errors that take a
            long preparation, such as underflow, are not seen coming (``worst_case`` finds those).
        tokens: by name; all if None.

    Raises:
        InputError: the length or the beam is below 1, or a token is unknown.

    Example:
        What a rule for partial reveals gets wrong within four tokens, log(3/2):

        >>> from automata.probabilistic.named_pfsas import lazy_swaps
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
    start: _Candidate[State] = _Candidate(np.array(automaton.initial), predictor.start(), (), (), 0.0)
    kept = [start]
    for _ in range(length):
        longer: list[_Candidate[State]] = []
        for one in kept:
            for token in allowed:
                longer += _extended(automaton, predictor, one, token)
        endless = [one for one in longer if one.total == float("inf")]
        if endless:
            return WorstSequence(endless[0].observations, endless[0].errors)
        kept = sorted(longer, key=lambda one: -one.total)[:beam]
    return WorstSequence(kept[0].observations, kept[0].errors)


def _extended(
    automaton: ProbabilisticAutomaton, predictor: Predictor[State], one: _Candidate[State], token: int
) -> list[_Candidate[State]]:
    found = list(outcomes(automaton, one.belief, token))
    errors = one.errors
    if token >= len(automaton.actions):
        predicted = predictor.probabilities(one.state, token)
        exact = np.zeros(len(predicted))
        for value, mass, _ in found:
            exact[value] = mass
        errors = (*errors, divergence(exact, predicted))
    total = one.total + (errors[-1] if len(errors) > len(one.errors) else 0.0)
    longer = []
    for value, _, belief in found:
        state = one.state if total == float("inf") else predictor.step(one.state, token, value)
        longer.append(_Candidate(belief, state, (*one.observations, (token, value)), errors, total))
    return longer


def sequence_errors(
    automaton: ProbabilisticAutomaton, predictor: Predictor[State], history: Sequence[tuple[str, str]]
) -> list[float]:
    """Return the error at each reveal of a history given by names: (token, value), the value "" at an action.

    The value of the last reveal may be "", too: it is asked, and not shown.

    Raises:
        InputError: a name is unknown, or a value cannot occur.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
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
