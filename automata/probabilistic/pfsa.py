"""Probabilistic automata with state reveals (PFSA-SR): sampling, exact belief filter, exact likelihood.

| code           | symbol     | meaning                                                                    |
|----------------|------------|----------------------------------------------------------------------------|
| ``initial``    | b₀         | distribution of the hidden state before the first token, ``[states]``      |
| ``matrices``   | M_σ        | ``[actions, states, states]``; column q is the distribution after q        |
| ``readings``   | o(q)       | ``[reveals, states]``; the value that a reveal shows in state q            |

The hidden state is moved by actions and shown by reveals; both are tokens. Belief: b ← M_σ b at an action,
b ← D_ρ b / 1ᵀ D_ρ b with D_ρ = diag(1[o(q) = ρ]) at a reveal of the value ρ.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_different, checked, repeated, shown
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.monoids.cayley import IntArray, float_array, integer_array

FloatArray = NDArray[np.float64]
NO_VALUE = -1
"""The entry in the place of a revealed value at an action."""

TOLERANCE = 1e-9  # a sum of a few hundred rounded float64 probabilities is off by at most about 1e-13
_ENTRIES_AT_ONCE = 2**20  # bounds the memory of one block of the filter to a few times 8 MiB


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ProbabilisticAutomaton:
    """A hidden Markov chain that is driven by actions and observed, without noise, at reveals.

    InputError if a shape is wrong, a name is used twice, two values of a reveal have one name, or something
    that should be a distribution is not one; the message names the action, the column and its sum.

    Args:
        states: the names of the hidden states.
        initial: b₀, shape ``[states]``.
        actions: for each action M_σ, shape ``[states, states]``, column-stochastic:
            ``M[next, current]``.
        reveals: for each reveal the value that it shows in every state, shape ``[states]``. It is *full*
            when the values are all different, *partial* otherwise. Different values have different names,
            as ``str`` gives them.

    Example:
        A coin that each "flip" turns over with probability 0.9, and that may be looked at:

        >>> coin = ProbabilisticAutomaton(
        ...     states=["heads", "tails"],
        ...     initial=[1, 0],
        ...     actions={"flip": [[0.1, 0.9], [0.9, 0.1]]},
        ...     reveals={"look": ["heads", "tails"]},
        ... )
        >>> coin.token_names, coin.is_full("look")
        (('flip', 'look'), True)
        >>> tokens = coin.encode(["flip", "look"])
        >>> states, values = coin.sample(tokens, np.random.default_rng(0))
        >>> [coin.value_names["look"][value] for value in values[1:]]
        ['tails']
        >>> coin.beliefs(tokens, values).round(3).tolist()
        [[0.1, 0.9], [0.0, 1.0]]
    """

    states: tuple[str, ...]
    initial: FloatArray
    actions: tuple[str, ...]
    reveals: tuple[str, ...]
    matrices: FloatArray
    readings: IntArray
    value_names: Mapping[str, tuple[str, ...]]
    """For every reveal the names of its values, in the order of their numbers."""

    @checked
    def __init__(
        self,
        states: Sequence[str],
        initial: ArrayLike,
        actions: Mapping[str, ArrayLike],
        reveals: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        names = tuple(states)
        reveals = reveals or {}
        if not names:
            raise InputError("states is empty; give at least one name")
        check_different("states", names)
        check_different("actions and reveals together", (*actions, *reveals))
        if not actions and not reveals:
            raise InputError("actions and reveals are both empty; give at least one token")
        size = len(names)
        start = _array("initial", initial, (size,))
        _check_distributions("initial", start[:, None], ("distribution",))
        columns = [f"column {name!r}" for name in names]
        matrices = []
        for action, matrix in actions.items():
            field = f"the matrix of action {action!r}"
            matrices.append(_array(field, matrix, (size, size)))
            _check_distributions(field, matrices[-1], columns)
        readings, value_names = [], {}
        for reveal, values in reveals.items():
            if len(values) != size:
                raise InputError(
                    f"reveal {reveal!r} shows {len(values)} values; give one for each of the {size} states"
                )
            numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
            readings.append([numbers[value] for value in values])
            value_names[reveal] = tuple(map(str, numbers))
            for value, number in zip(values, readings[-1], strict=True):
                if str(value) != (name := value_names[reveal][number]):
                    raise InputError(
                        f"reveal {reveal!r} shows {name} and {value}, which are equal; write both alike, or "
                        "one as a text"
                    )
            if len(set(value_names[reveal])) < len(numbers):
                name = repeated(value_names[reveal])
                alike = " and ".join(shown(value) for value in numbers if str(value) == name)
                raise InputError(
                    f"reveal {reveal!r} shows {alike}, which have one name, {name!r}; give different values "
                    "different names"
                )
        arrays = {
            "initial": start,
            "matrices": np.array(matrices).reshape(len(matrices), size, size),
            "readings": np.array(readings, dtype=np.int64).reshape(len(readings), size),
        }
        for array in arrays.values():
            array.setflags(write=False)
        vars(self).update(arrays, states=names, actions=tuple(actions), reveals=tuple(reveals))
        vars(self).update(value_names=MappingProxyType(value_names))

    def __reduce__(self) -> tuple[type["ProbabilisticAutomaton"], tuple[object, ...]]:
        actions = dict(zip(self.actions, self.matrices, strict=True))
        reveals = {
            reveal: [self.value_names[reveal][value] for value in reading]
            for reveal, reading in zip(self.reveals, self.readings, strict=True)
        }
        return ProbabilisticAutomaton, (self.states, self.initial, actions, reveals)

    @classmethod
    @checked
    def from_dfa(cls, dfa: DFA) -> "ProbabilisticAutomaton":
        """Return the deterministic special case: symbols are actions, and "state" and "accepting" reveals.

        Example:
            >>> from automata.machines.named_dfas import parity_dfa
            >>> parity = ProbabilisticAutomaton.from_dfa(parity_dfa())
            >>> parity.actions, parity.reveals, parity.matrices[1].tolist()
            (('0', '1'), ('state', 'accepting'), [[0.0, 1.0], [1.0, 0.0]])
        """
        size = len(dfa.states)
        identity = np.eye(size)
        return cls(
            [str(state) for state in dfa.states],
            identity[dfa.initial_number],
            {symbol: identity[:, dfa.table[:, column]] for column, symbol in enumerate(dfa.alphabet)},
            {"state": dfa.states, "accepting": [state in dfa.accepting for state in dfa.states]},
        )

    def __repr__(self) -> str:
        return (
            f"<ProbabilisticAutomaton of {len(self.states)} states, {len(self.actions)} actions "
            f"and {len(self.reveals)} reveals>"
        )

    @property
    def token_names(self) -> tuple[str, ...]:
        """The tokens by number: first the actions, then the reveals."""
        return self.actions + self.reveals

    def is_full(self, reveal: str) -> bool:
        """Return whether this reveal shows the state completely."""
        return len(self.value_names[reveal]) == len(self.states)

    def encode(self, names: Iterable[str]) -> IntArray:
        """Return the numbers of tokens given by name, shape ``[length]``; InputError for an unknown one."""
        numbers = {name: number for number, name in enumerate(self.token_names)}
        listed = list(names)
        for position, name in enumerate(listed):
            if name not in numbers:
                known = ", ".join(map(repr, numbers))
                raise InputError(f"token {name!r} at position {position} is unknown; use one of {known}")
        return np.array([numbers[name] for name in listed], dtype=np.int64)

    def sample(
        self, tokens: ArrayLike, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> tuple[IntArray, IntArray]:
        """Run the chain under given tokens, ``[..., length]``.

        Return the hidden state after every token and the value shown, ``NO_VALUE`` at an action; int64 arrays
        of that shape. ``start`` is the hidden state before each sequence, ``[...]``; -1 draws it from the
        initial distribution, as None does for all of them.
        """
        given = self._valid_tokens(tokens)
        flat = given.reshape(-1, given.shape[-1])
        states, values = np.empty_like(flat), np.full_like(flat, NO_VALUE)
        current = _draw(np.broadcast_to(self.initial, (len(flat), len(self.states))), rng)
        if start is not None:
            given_start = integer_array("start", start)
            if (
                given_start.shape != given.shape[:-1]
                or not ((given_start >= -1) & (given_start < len(self.states))).all()
            ):
                raise InputError(
                    f"start has shape {list(given_start.shape)} and numbers up to {given_start.max()}; give "
                    f"{list(given.shape[:-1])} with states in 0 … {len(self.states) - 1}, or -1"
                )
            current = np.where(given_start.ravel() < 0, current, given_start.ravel())
        for position, token in enumerate(flat.T):
            for number in np.unique(token).tolist():
                rows = np.flatnonzero(token == number)
                if number < len(self.actions):
                    current[rows] = _draw(self.matrices[number].T[current[rows]], rng)
                else:
                    values[rows, position] = self.readings[number - len(self.actions), current[rows]]
            states[:, position] = current
        return states.reshape(given.shape), values.reshape(given.shape)

    def log_beliefs(self, tokens: ArrayLike, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the exact filter in log space, which does not underflow on improbable traces.

        The first result is log Pr(state after token t | reveals up to t), ``[..., length, states]``. The
        second is log Pr(value at t | reveals before t), ``[..., length]``, 0 at an action. Both are -inf
        where the reveals up to t have probability 0. Tokens and values are ``[..., length]``; values are read
        at reveals. InputError if the shapes differ, a token is unknown, or a value is not one of its reveal.
        """
        given, shown = self.checked(tokens, values)
        flat, flat_shown = given.reshape(-1, given.shape[-1]), shown.reshape(-1, given.shape[-1])
        with np.errstate(divide="ignore"):
            current = np.tile(np.log(self.initial), (len(flat), 1))
        beliefs = np.empty((*flat.shape, len(self.states)))
        evidence = np.zeros(flat.shape)
        for position, token in enumerate(flat.T):
            for number in np.unique(token).tolist():
                rows = np.flatnonzero(token == number)
                if number < len(self.actions):
                    current[rows] = _log_product(self._log_matrices[number], current[rows])
                else:
                    reading = self.readings[number - len(self.actions)]
                    seen = np.where(reading == flat_shown[rows, position, None], current[rows], -np.inf)
                    mass = _log_sum_exp(seen)
                    evidence[rows, position] = mass
                    current[rows] = seen - np.where(np.isneginf(mass), 0.0, mass)[:, None]
            beliefs[:, position] = current
        return beliefs.reshape(*given.shape, len(self.states)), evidence.reshape(given.shape)

    def beliefs(self, tokens: ArrayLike, values: ArrayLike) -> FloatArray:
        """Return Pr(state after token t | reveals up to t), shape ``[..., length, states]``.

        InputError as for ``log_beliefs``, or the reveals up to some position have probability 0; the
        message names the position and, of several, the sequence.
        """
        log_beliefs, evidence = self.log_beliefs(tokens, values)
        impossible = np.argwhere(np.isneginf(evidence))
        if impossible.size:
            where = tuple(impossible[0].tolist())
            sequence = f" of sequence {', '.join(map(str, where[:-1]))}" if where[:-1] else ""
            raise InputError(
                f"values has an impossible reveal at position {where[-1]}{sequence}; "
                "give a trace that can occur"
            )
        return np.exp(log_beliefs)

    def log_likelihood(self, tokens: ArrayLike, values: ArrayLike) -> FloatArray:
        """Return log Pr(all values shown | tokens), shape ``[...]``; -inf for an impossible trace."""
        return self.log_beliefs(tokens, values)[1].sum(axis=-1)

    def checked(self, tokens: ArrayLike, values: ArrayLike) -> tuple[IntArray, IntArray]:
        """Return a trace as arrays of integers of one shape ``[..., length]``.

        InputError if the shapes differ, a token is unknown, or a value is not one of its reveal.
        """
        given, shown = self._valid_tokens(tokens), integer_array("values", values)
        if shown.shape != given.shape:
            raise InputError(
                f"values has shape {list(shown.shape)}; give the shape of tokens, {list(given.shape)}"
            )
        counts = np.array(
            [0] * len(self.actions) + [len(self.value_names[reveal]) for reveal in self.reveals]
        )
        wrong = np.argwhere((given >= len(self.actions)) & ((shown < 0) | (shown >= counts[given])))
        if wrong.size:
            where = tuple(wrong[0].tolist())
            reveal = self.token_names[given[where]]
            raise InputError(
                f"value {shown[where]} at position {where[-1]} is not one that reveal {reveal!r} shows; "
                f"give one in 0 … {counts[given[where]] - 1}"
            )
        return given, shown

    @cached_property
    def _log_matrices(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.matrices)

    def _valid_tokens(self, tokens: ArrayLike) -> IntArray:
        given = integer_array("tokens", tokens)
        if not given.ndim or not given.size:
            raise InputError(
                f"tokens has shape {list(given.shape)}; give [..., length] with at least one token"
            )
        outside = np.argwhere((given < 0) | (given >= len(self.token_names)))
        if outside.size:
            where, last = tuple(outside[0].tolist()), len(self.token_names) - 1
            raise InputError(
                f"token {given[where]} at position {where[-1]} is unknown; give one in 0 … {last}"
            )
        return given


def _draw(distributions: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one state from every row, by inversion of the cumulative sums."""
    cumulative = np.cumsum(distributions, axis=1)
    total = cumulative[:, -1]
    # strictly below the last sum, whatever its rounding
    thresholds = np.minimum(rng.random(len(total)) * total, np.nextafter(total, 0))
    return (cumulative > thresholds[:, None]).argmax(axis=1)


def _log_product(log_matrix: FloatArray, log_beliefs: FloatArray) -> FloatArray:
    """Return log(M b) for every row b, shape ``[batch, states]``, a block of rows at a time."""
    rows = max(1, _ENTRIES_AT_ONCE // log_matrix.size)
    blocks = range(0, len(log_beliefs), rows)
    moved = [_log_sum_exp(log_matrix + log_beliefs[start : start + rows, None, :]) for start in blocks]
    return np.concatenate(moved)


def _log_sum_exp(values: FloatArray) -> FloatArray:
    """Return log Σ exp over the last axis; -inf where every entry is."""
    largest = values.max(axis=-1)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(values - shift[..., None]).sum(axis=-1))


def _array(field: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    array = float_array(field, values, f"numbers of shape {list(shape)}")
    if array.shape != shape:
        raise InputError(f"{field} has shape {list(array.shape)}; give {list(shape)}")
    return array


def _check_distributions(field: str, columns: FloatArray, names: Sequence[str]) -> None:
    for name, column in zip(names, columns.T, strict=True):
        if not (column >= 0).all() or not abs(column.sum() - 1) <= TOLERANCE:
            raise InputError(
                f"{field} is not stochastic: {name} sums to {column.sum():.12g} with smallest entry "
                f"{column.min():.6g}; make its entries non-negative and their sum 1 up to {TOLERANCE:g}"
            )
