"""Sequences on which a predictor of reveals is worst, and what no function of the marginals can avoid.

The error at a reveal is KL(exact ‖ predicted) in nats: the expected excess of the log-loss, given the
history. A search goes through histories that can occur: every token, and at a reveal every value of
positive probability.

Theorem 9: let two histories with one P lead to different distributions r ≠ r' of a reveal. Then every
predictor whose state is a function of P is wrong by the divergence radius R(r, r') > 0 on one of them, and
again and again if full reveals follow. If the adversary chooses by a fair coin in advance, the expected error
per round is at least their Jensen–Shannon divergence. ``automata.probabilistic.scope`` finds such pairs.

Theorem 10: a predictor from bounded affine states is wrong by a constant on some sequence of the coin of
``unknown_coin``. ``docs/belief.md`` has statements and proofs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from theory.belief.predictors import Predictor, State, divergence
from theory.belief.reachable import FloatArray, outcomes


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
    InputError if the length or the beam is below 1, or a token is unknown.

    Histories have ``length`` tokens from ``tokens``, all if None. ``beam`` histories are kept at each length,
    those with the largest sums; all if None, which is exhaustive. With a beam the result is a history that is
    so bad, not the worst: errors that take a long preparation, such as underflow, are not seen coming
    (``worst_case`` finds those).

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

    The value of the last reveal may be "", too: it is asked, and not shown. InputError if a name is unknown,
    or a value cannot occur.

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
