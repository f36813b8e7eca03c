"""On which tokens a filter on the marginals exists, decided on the beliefs that can be reached.

A *marginal filter* of an automaton, for a set of tokens, is a function U with P(b') = U(P(b), y). Here b is
any belief that these tokens can reach, y any observation possible at b (an action, or a reveal with its
value), and b' the belief after it. The filter exists iff P(b₁) = P(b₂) implies P(b₁') = P(b₂') for all
reachable b₁, b₂ and y possible at both (Proposition B of ``docs/belief.md``).

So beliefs that can be reached are listed, by length, and grouped by P and y: all of a group must have one P
after y. If no new belief appears at some length, the answer holds for every length; otherwise for sequences
up to the length given. Arithmetic is exact: each probability of the automaton is read as the nearest
fraction with a denominator up to 10⁶. A counterexample is final: two sequences that no function of P can
tell apart, and an observation after which P differs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_integer, checked
from automata.errors import InputError
from automata.probabilistic.marginal_filter import columns_held
from automata.probabilistic.pfsa import ProbabilisticAutomaton

Belief = tuple[Fraction, ...]
History = tuple[tuple[str, str], ...]
"""Tokens by name, each with the value it showed, "" for an action."""

_DENOMINATOR = 10**6


@dataclass(frozen=True)
class Confusion:
    """Two histories with the same marginals, and an observation after which they have different ones.

    The first history is the shorter one. Marginals P have rows of variables; the observation is a token with
    the value that it shows.
    """

    first: History
    second: History
    observation: tuple[str, str]
    marginal: tuple[Belief, ...]
    first_marginal: tuple[Belief, ...]
    second_marginal: tuple[Belief, ...]


@dataclass(frozen=True)
class MarginalScope:
    """The existence of a marginal filter, or why there is none.

    Attributes:
        exists: for all sequences up to ``length``, and for all lengths if ``closed``.
        closed: no belief is reached for the first time after ``length`` tokens.
        length: the tokens of the longest histories that were looked at, without the observation after them.
        beliefs: how many different ones they lead to.
        confusion: why it does not exist, or None.
    """

    exists: bool
    closed: bool
    length: int
    beliefs: int
    confusion: Confusion | None


class _Exact:
    """The automaton in fractions."""

    def __init__(self, automaton: ProbabilisticAutomaton, tokens: Sequence[str]) -> None:
        self.automaton = automaton
        self.start = _fractions("initial", automaton.initial)
        size = len(self.start)
        self.moves: dict[str, list[list[tuple[int, Fraction]]]] = {}
        self.shows: dict[str, list[str]] = {}
        for token in tokens:
            number = int(automaton.encode([token])[0])
            if number < len(automaton.actions):
                columns = [_fractions(f"action {token!r}", column) for column in automaton.matrices[number].T]
                self.moves[token] = [
                    [(current, columns[current][after]) for current in range(size) if columns[current][after]]
                    for after in range(size)
                ]
            else:
                reading = automaton.readings[number - len(automaton.actions)]
                self.shows[token] = [automaton.value_names[token][value] for value in reading]

    def next_beliefs(self, belief: Belief) -> Iterator[tuple[tuple[str, str], Belief]]:
        """Every observation that is possible, with the belief after it."""
        for token, rows in self.moves.items():
            yield (
                (token, ""),
                tuple(sum((p * belief[q] for q, p in row if belief[q]), Fraction(0)) for row in rows),
            )
        for token, shown in self.shows.items():
            masses: dict[str, Fraction] = {}
            for value, mass in zip(shown, belief, strict=True):
                if mass:
                    masses[value] = masses.get(value, Fraction(0)) + mass
            for value, total in masses.items():
                yield (
                    (token, value),
                    tuple(
                        mass / total if name == value else Fraction(0)
                        for name, mass in zip(shown, belief, strict=True)
                    ),
                )


@checked
def marginal_scope(
    automaton: ProbabilisticAutomaton,
    variables: Sequence[str],
    length: int,
    tokens: Iterable[str] | None = None,
    most_beliefs: int = 20_000,
) -> MarginalScope:
    """Decide whether a filter on the marginals exists, for histories of up to ``length`` tokens.

    InputError if a name is unknown, a probability is no fraction with a denominator up to 10⁶ that sums to 1
    with the others, or there are too many beliefs.

    Args:
        automaton: whose beliefs are listed, from its initial distribution on.
        variables: the reveals that show the variables.
        length: tokens of the histories; one more observation is compared after each.
        tokens: those that may occur, by name; all if None.
        most_beliefs: refuse to list more.

    Example:
        Three variables, and swaps that may not happen: partial reveals included, a function of P suffices.

        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> names = ["variable 1", "variable 2", "variable 3"]
        >>> scope = marginal_scope(lazy_swaps(3), names, 8)
        >>> scope.exists, scope.closed, scope.beliefs
        (True, False, 456)
    """
    check_integer("length", length, 0)
    given = automaton.token_names if tokens is None else tuple(tokens)
    exact = _Exact(automaton, given)
    held, _ = columns_held(automaton, variables)
    width = int(held.max()) + 1

    def marginal(belief: Belief) -> tuple[Belief, ...]:
        rows = [[Fraction(0)] * width for _ in held]
        for state, mass in enumerate(belief):
            if mass:
                for row, columns in zip(rows, held, strict=True):
                    row[columns[state]] += mass
        return tuple(map(tuple, rows))

    histories: dict[Belief, History] = {exact.start: ()}
    # by P and observation: the first belief at which it is possible, and the belief after it
    first_with: dict[tuple[Belief, ...], dict[tuple[str, str], tuple[Belief, Belief]]] = {}
    frontier, reached = [exact.start], 0
    for reached in range(length + 1):
        new: list[Belief] = []
        for belief in frontier:
            updates = dict(exact.next_beliefs(belief))
            here = marginal(belief)
            known = first_with.setdefault(here, {})
            for observation, after in updates.items():
                other, first = known.setdefault(observation, (belief, after))
                if first != after and marginal(first) != marginal(after):
                    told = histories[other], histories[belief], observation
                    found = Confusion(*told, here, marginal(first), marginal(after))
                    return MarginalScope(False, False, reached, len(histories), found)
            for observation, after in updates.items():
                if after not in histories:
                    histories[after] = (*histories[belief], observation)
                    new.append(after)
        if not new or reached == length:
            break
        if len(histories) > most_beliefs:
            raise InputError(
                f"length is {length} and more than {most_beliefs} beliefs are reached after {reached + 1} "
                "tokens; give a smaller length"
            )
        frontier = new
    return MarginalScope(True, not new, reached, len(histories) - len(new), None)


def _fractions(field: str, column: ArrayLike) -> Belief:
    given = np.asarray(column, dtype=np.float64).tolist()
    found = tuple(Fraction(p).limit_denominator(_DENOMINATOR) for p in given)
    if sum(found) != 1 or any(abs(float(p) - q) > 1e-15 for p, q in zip(found, given, strict=True)):
        raise InputError(
            f"{field} holds probabilities that are no fractions with denominators up to {_DENOMINATOR} and "
            "sum 1; give simpler ones"
        )
    return found
