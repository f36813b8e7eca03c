"""The marginal filter: what each variable shows, n×n numbers in place of a belief over n! arrangements.

| code          | symbol | meaning                                                                           |
|---------------|--------|-----------------------------------------------------------------------------------|
| ``marginal``  | P      | ``[variables, values]``; P[i, v] = Pr(variable i shows v)                         |
| ``summary``   | m      | ``[variables · values, states]``, zeros and ones; P = m b for the belief b        |
| ``linear``    | T_y    | T_y m = m N_y, for the tokens y that act on P linearly                            |

N_y is M_σ at an action and D_ρ at a reveal of ρ. A token *acts* on P if P after it is a function of P before
it, for all beliefs. By Theorem A of ``docs/belief.md`` an action does iff m N_y vanishes on ker m, and a
reveal then or if all states that show its value have the same P: with hidden permutations and full reveals
only, from any start, the marginal filter is exact, and a reveal of one variable does not act on P for n ≥ 3.

Beliefs that can be *reached* are fewer, and a filter on P may exist for them where these conditions fail:
``scope`` decides that for small automata, Theorem C (`three_variables_closed`) proves it for a family. Even
where P is exact it predicts the value of each variable, not of a full reveal.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_memory, checked
from automata.errors import InputError, unknown_name
from automata.monoids.cayley import IntArray
from automata.probabilistic.pfsa import FloatArray, ProbabilisticAutomaton

Rule = Literal["refuse", "condition", "balance"]
"""The treatment of a partial reveal that does not act on P."""

# of pseudo-inverses of matrices of zeros and ones: 1e-16 over the smallest singular value, which is about
# π/N where two variables show N states in overlapping pairs
_ROUNDING = 1e-9
_SWEEPS = 200


class MarginalFilter:
    """The filter on P, exact for tokens that act on P, approximate at other reveals if a rule is given.

    The rules for a reveal of variable i that shows v: "condition" clears the rest of row i and of column v
    and divides the other rows by their sums; "balance" then divides columns and rows in turn until all sums
    are 1 (Sinkhorn), or 200 times. Neither is exact in general. InputError if a variable is no reveal, the
    rule is unknown, or an action does not act on P.

    Args:
        automaton: whose states are filtered.
        variables: the reveals that show the variables, each one of them.
        rule: what to do at a partial reveal that does not act on P; "refuse" raises.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> automaton = lazy_swaps(3, probability=0.25)
        >>> filtered = MarginalFilter(automaton, ["variable 1", "variable 2", "variable 3"])
        >>> filtered.run(automaton.encode(["swap 1 2", "swap 2 3"]), [-1, -1])[-1].tolist()
        [[0.75, 0.25, 0.0], [0.1875, 0.5625, 0.25], [0.0625, 0.1875, 0.75]]
    """

    @checked
    def __init__(
        self, automaton: ProbabilisticAutomaton, variables: Sequence[str], rule: Rule = "refuse"
    ) -> None:
        self.automaton, self.variables, self.rule = automaton, tuple(variables), rule
        # [variables, states]: the column of P that a variable stands in, in every state
        self.held, self.value_names = columns_held(automaton, variables)
        size = len(self.held) * len(self.value_names)
        check_memory(
            f"the filter of {len(self.held)} variables with {len(self.value_names)} values",
            8 * size * (len(automaton.actions) * size + 3 * len(automaton.states)),
            "name fewer variables",
        )
        one_hot = np.eye(len(self.value_names))[self.held]  # [variables, states, values]
        self.summary = one_hot.transpose(0, 2, 1).reshape(-1, len(automaton.states))
        self._inverse = np.linalg.pinv(self.summary)
        self.linear: dict[int, FloatArray] = {}
        for action, matrix in enumerate(automaton.matrices):
            acting = self._mixed_rows(matrix)
            if acting is None:
                acting = self._acting(matrix)
            if acting is None:
                raise InputError(
                    f"action {automaton.actions[action]!r} does not act on the marginals of "
                    f"{list(variables)}; filter the joint belief instead"
                )
            self.linear[action] = acting

    @property
    def initial(self) -> FloatArray:
        """P before the first token, shape ``[variables, values]``."""
        return self.of(self.automaton.initial)

    def of(self, beliefs: ArrayLike) -> FloatArray:
        """Return P of beliefs, shape ``[..., states]`` to ``[..., variables, values]``."""
        flat = np.asarray(beliefs, dtype=np.float64) @ self.summary.T
        return flat.reshape(*flat.shape[:-1], len(self.variables), len(self.value_names))

    def acts(self, token: str) -> bool:
        """Return whether P after this token is a function of P before it, for all beliefs: the theorem.

        InputError if the token is unknown.
        """
        number = int(self.automaton.encode([token])[0])
        if number in self.linear:
            return True
        reading = self.automaton.readings[number - len(self.automaton.actions)]
        return all(
            self._known(reading == value) is not None
            or self._acting(np.diag(np.where(reading == value, 1.0, 0.0))) is not None
            for value in range(reading.max() + 1)
        )

    def step(self, marginal: ArrayLike, token: int, value: int) -> FloatArray:
        """Return P after a token, shape ``[variables, values]``; the value is read at reveals only.

        InputError if p rules out what the reveal shows, or the reveal does not act on P while the rule is
        "refuse" or the reveal shows none of the variables. A value that P allows and the joint belief rules
        out is not found.
        """
        P = np.asarray(marginal, dtype=np.float64)
        if token in self.linear:
            return (self.linear[token] @ P.ravel()).reshape(P.shape)
        number = token - len(self.automaton.actions)
        reading, name = self.automaton.readings[number], self.automaton.reveals[number]
        shows = reading == value
        known = self._known(shows)
        if known is not None:
            if P[np.arange(len(P)), known].min() <= 0:
                raise InputError(f"reveal {name!r} shows what has probability 0; give a trace that can occur")
            return np.eye(len(self.value_names))[known]
        acting = self._acting(np.diag(shows.astype(np.float64)))
        if acting is not None:
            seen: FloatArray = (acting @ P.ravel()).reshape(P.shape)
            return _divided(seen, seen[0].sum(), name)
        if self.rule == "refuse" or name not in self.variables:
            raise InputError(
                f"reveal {name!r} does not act on the marginals; filter the joint belief, or give a rule for "
                "reveals of one variable"
            )
        variable = self.variables.index(name)
        return self._by_rule(P, variable, int(self.held[variable, np.flatnonzero(shows)[0]]), name)

    def run(self, tokens: ArrayLike, values: ArrayLike) -> FloatArray:
        """Return P after every token, shape ``[..., length, variables, values]``.

        InputError as for ``step`` and ``ProbabilisticAutomaton.log_beliefs``; the message names the
        position and, of several, the sequence.
        """
        given, shown = self.automaton.checked(tokens, values)
        found = np.empty((*given.shape, len(self.variables), len(self.value_names)))
        for sequence in np.ndindex(given.shape[:-1]):
            current = self.initial
            for position, (token, value) in enumerate(zip(given[sequence], shown[sequence], strict=True)):
                try:
                    current = self.step(current, int(token), int(value))
                except InputError as fault:
                    where = f" of sequence {', '.join(map(str, sequence))}" if sequence else ""
                    raise InputError(f"at position {position}{where}: {fault}") from None
                found[(*sequence, position)] = current
        return found

    def _acting(self, matrix: FloatArray) -> FloatArray | None:
        """Return T with T m = m N, or None where m N does not vanish on ker m."""
        moved = self.summary @ matrix
        found: FloatArray = moved @ self._inverse
        return found if np.abs(found @ self.summary - moved).max() < _ROUNDING else None

    def _mixed_rows(self, matrix: FloatArray) -> FloatArray | None:
        """Return A ⊗ I where P ← A P with A ≥ 0, so that zeros stay zeros; None if it has not this form."""
        first = self.of(np.eye(len(self.automaton.states))[0])
        if first.shape[0] != first.shape[1] or not (first.sum(axis=0) == 1).all():
            return None
        mixing = self.of(matrix[:, 0]) @ first.T  # the P of state 0 is a permutation matrix
        found = np.asarray(np.kron(mixing, np.eye(len(first))), dtype=np.float64)
        return found if np.abs(found @ self.summary - self.summary @ matrix).max() < _ROUNDING else None

    def _known(self, shows: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> IntArray | None:
        """Return the columns of the variables if all states of a value have the same ones, else None."""
        held = self.held[:, shows]
        return held[:, 0] if (held == held[:, :1]).all() else None

    def _by_rule(self, P: FloatArray, variable: int, column: int, name: str) -> FloatArray:
        seen = P.copy()
        seen[:, column] = 0
        seen[variable] = 0
        seen[variable, column] = P[variable, column]
        seen = _divided(seen, seen.sum(axis=1, keepdims=True), name)
        for _ in range(_SWEEPS if self.rule == "balance" else 0):
            sums = seen.sum(axis=0)
            if np.abs(sums - 1).max() < 1e-15 or sums.min() == 0:
                break
            seen = seen / sums
            seen = seen / seen.sum(axis=1, keepdims=True)
        return seen


@checked
def columns_held(
    automaton: ProbabilisticAutomaton, variables: Sequence[str]
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the column of P that each variable stands in, ``[variables, states]``, and the values by column.

    Values of different variables with the same name are one; they are in the order of their first occurrence.
    InputError if there is no variable, or one is no reveal.
    """
    if not variables:
        raise InputError("variables is empty; name at least one reveal")
    for name in variables:
        if name not in automaton.reveals:
            raise unknown_name("variable", str(name), automaton.reveals)
    names = tuple(dict.fromkeys(value for name in variables for value in automaton.value_names[name]))
    columns = {value: column for column, value in enumerate(names)}
    held = [
        [
            columns[automaton.value_names[name][value]]
            for value in automaton.readings[automaton.reveals.index(name)]
        ]
        for name in variables
    ]
    return np.array(held), names


def _divided(seen: FloatArray, mass: FloatArray | float, name: str) -> FloatArray:
    if np.min(mass) <= 0:
        raise InputError(f"reveal {name!r} shows what has probability 0; give a trace that can occur")
    return seen / mass


_ARRANGEMENTS = np.array(list(permutations(range(3))))
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])


def belief_from_marginals(marginal: ArrayLike) -> FloatArray:
    """Return b, shape ``[..., 6]``, arrangements in lexicographic order, of P ``[..., 3, 3]``.

    b(π) = (2 Σᵢ P[i, πᵢ] − 1 + sgn(π) det P) / 6 holds if det P = s(b) = Σ sgn(π) b(π) (Theorem C); else this
    is another belief or none. InputError for another shape.

    Example:
        >>> half = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
        >>> belief_from_marginals(half).tolist()
        [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]
    """
    P = np.asarray(marginal, dtype=np.float64)
    if P.shape[-2:] != (3, 3):
        raise InputError(f"marginal has shape {list(P.shape)}; give [..., 3, 3]")
    held = P[..., np.arange(3), _ARRANGEMENTS].sum(axis=-1)  # [..., 6]
    return (2 * held - 1 + _SIGNS * np.linalg.det(P)[..., None]) / 6


def three_variables_closed(mixture: ArrayLike) -> bool:
    """Return whether an action on three variables keeps det P = s(b).

    It does iff det E Π = E sgn Π for the permutation matrix Π that it draws. ``mixture`` holds the
    probabilities of the six permutations, in lexicographic order, ``[6]``; InputError for another shape.

    Example:
        A hidden swap, and a hidden rotation:

        >>> three_variables_closed([0.7, 0, 0.3, 0, 0, 0]), three_variables_closed([0.7, 0, 0, 0.3, 0, 0])
        (True, False)
    """
    probabilities = np.asarray(mixture, dtype=np.float64)
    if probabilities.shape != (6,):
        raise InputError(f"mixture has shape {list(probabilities.shape)}; give [6]")
    matrix = np.einsum("k,kij->ij", probabilities, np.eye(3)[_ARRANGEMENTS])
    return bool(abs(np.linalg.det(matrix) - probabilities @ _SIGNS) < 1e-12)  # a few roundings of float64
