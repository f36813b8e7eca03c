"""Sequences on which a predictor of reveals is worst, and what no function of the marginals can avoid.

The error at a reveal is KL(exact ‖ predicted) in nats: the expected excess of the log-loss, given the
history. A search goes through histories that can occur: every token, and at a reveal every value of
positive probability.

**Theorem 9 (two histories with one marginal).** *Let two histories w and w' have the same P; let y be
possible after both, and let a reveal asked after y have the exact distributions r and r'. Then a predictor
whose state after w and w' is a function of P predicts one distribution q after both, and max(KL(r ‖ q),
KL(r' ‖ q)) ≥ R(r, r') > 0 for r ≠ r', where R, the divergence radius, is the capacity of the channel with
the rows r and r'. If w and w' are hidden permutations, both from the same known arrangement, a full reveal
follows, and values may be renamed, this repeats for ever: for every such predictor there is a sequence with
an error of at least R in every round, and it does not help the predictor to know the construction.*

*Proof.* q is the same, as the state is. min_q max(KL(r ‖ q), KL(r' ‖ q)) is the capacity (Gallager,
Ryabko), above 0 unless r = r'. From a known arrangement P after w determines the doubly stochastic matrix
A_w of its actions, so that A_w = A_w'. After the full reveal an arrangement is known again, and w, w' act
on positions: they have one P again, and y, r and r' are those from before with values renamed. In each
round the adversary takes the worse of both. ∎ If he chooses by a fair coin in advance, the expected error
per round is at least their Jensen–Shannon divergence.

On three variables with a hidden rotation (each of three with probability ⅓), and a hidden swap of
probability ½ or not, r = (1) and r' = (½, ½): R = log(5/4) = 0.223 nats. ``automata.probabilistic.scope``
finds such pairs.

**Theorem 10 (bounded affine states).** *Take the coin of ``unknown_coin``, 0 < p < 1, p ≠ ½. Let h ← A_y h
+ c_y in ℝᵈ, with y "heads" or "tails", have states that stay bounded over all sequences, and predict by a
uniformly continuous function of h. Then for every ε > 0 there are sequences after which it predicts the
same within ε, where the exact probabilities of heads differ by |2p − 1| − ε: it is wrong by a constant on
one of them.*

*Proof.* Let V be the span of the differences of reachable states, and A_T the matrix of tails. A_T^m(h −
h') is a difference of reachable states if h − h' is; these span V, which is of finite dimension, so ‖A_T^m‖
≤ C on V for all m. The states after k heads, k = 1, 2, …, are bounded, so for every δ there are k and k' ≥
k + 2n with |h_k − h_k'| < δ. Append m = k + n tails: the states are within C δ, whereas heads minus tails
are −n and at least n, where the exact probabilities of heads tend to min(p, 1 − p) and max(p, 1 − p) as n
grows. ∎ The normalised filter is bounded, with a linear readout, and exact in real numbers: so this is what
a non-linear update gains. (In floats its smaller entry underflows, too, at |heads − tails| · log(p/(1−p))
beyond the range.) The unnormalised one escapes by not being bounded away from 0, where normalisation is not
uniformly continuous.

*Not settled:* the same for hidden swaps, where beliefs do not need an unbounded count. Where the filter
forgets uniformly, there is no such theorem: a shift register of the last k observations is a bounded affine
RNN of k·|Y| numbers, and with a continuous readout as close as one likes (a linear readout may take a
number for each of the |Y|ᵏ words); even d = 1 is enough, h ← h/B + c_y from 0, with digits c_y = 1 … |Y| of
a base B > |Y| + 1: different pasts lie apart, and a continuous readout tells the last k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from theory.belief.prediction_error import divergence
from theory.belief.predictors import Predictor, State
from theory.belief.reachable import outcomes
from theory.belief.token_source import FloatArray


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

        >>> from automata.probabilistic import MarginalFilter, lazy_swaps
        >>> from theory.belief.predictors import MarginalPredictor
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
        >>> from automata.probabilistic import MarginalFilter, lazy_swaps
        >>> from theory.belief.predictors import MarginalPredictor
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
