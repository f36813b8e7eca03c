"""The deterministic finite automaton as the textbook's five-tuple, immutable and checked."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_different, check_members, check_memory, check_type, checked
from automata.errors import InputError
from automata.monoids.cayley import IntArray, as_array, integer_array

State = Hashable
Named = TypeVar("Named", bound=Hashable)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class DFA:
    """A complete deterministic finite automaton (Q, Σ, δ, q₀, F), δ as ``transitions[state][symbol]``.

    States are any hashable values, symbols are strings; a word is a sequence of symbols, so for one-letter
    symbols a string will do. Two automata are equal when the five-tuples are: the order in which states and
    symbols were listed does not matter, their names do. ``automata.machines.equivalence`` compares languages.
    InputError without a state or symbol, if δ is not defined for every pair, or for another broken invariant;
    the message names the state or symbol.

    Example:
        >>> even_ones = DFA(
        ...     states=("even", "odd"),
        ...     alphabet=("0", "1"),
        ...     transitions={"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}},
        ...     initial="even",
        ...     accepting={"even"},
        ... )
        >>> even_ones.accepts("0110"), even_ones.run("011")
        (True, ('even', 'even', 'odd', 'even'))
    """

    states: tuple[State, ...]
    alphabet: tuple[str, ...]
    transitions: Mapping[State, Mapping[str, State]]
    initial: State
    accepting: frozenset[State]

    @checked
    def __init__(
        self,
        states: Iterable[State],
        alphabet: Iterable[str],
        transitions: Mapping[Any, Mapping[str, Any]],
        initial: State,
        accepting: Iterable[State] = (),
    ) -> None:
        states, alphabet = _distinct("states", states), _distinct("alphabet", alphabet)
        accepting = tuple(accepting)
        known_states, known_symbols = frozenset(states), frozenset(alphabet)
        if initial not in known_states:
            raise InputError(f"initial state {initial!r} is not among the states; add it or name another")
        for state in accepting:
            if state not in known_states:
                raise InputError(f"accepting state {state!r} is not among the states; add it or leave it out")
        for state, row in transitions.items():
            if state not in known_states:
                raise InputError(f"transitions leave state {state!r}, which is not among the states; add it")
            for symbol, target in row.items():
                if symbol not in known_symbols:
                    raise InputError(
                        f"transitions of state {state!r} read {symbol!r}, which is not in the alphabet"
                    )
                if target not in known_states:
                    raise InputError(
                        f"the transition from {state!r} under {symbol!r} leads to {target!r}, "
                        "which is not among the states; add it"
                    )
        for state in states:
            for symbol in alphabet:
                if symbol not in transitions.get(state, {}):
                    raise InputError(
                        f"state {state!r} has no transition under {symbol!r}; add one, perhaps to a sink"
                    )
        delta = {s: MappingProxyType({a: transitions[s][a] for a in alphabet}) for s in states}
        vars(self).update(states=states, alphabet=alphabet, transitions=MappingProxyType(delta))
        vars(self).update(initial=initial, accepting=frozenset(accepting))

    @classmethod
    @checked
    def from_table(
        cls,
        table: ArrayLike,
        initial: int = 0,
        accepting: Iterable[int] = (),
        states: Sequence[State] | None = None,
        alphabet: Sequence[str] | None = None,
    ) -> "DFA":
        """Return the automaton of a transition table.

        InputError if an entry is no integer or no number of a state, names do not fit the shape, or as for
        the class.

        The table is ``[states, symbols]``: the number of the state after the symbol. States are named
        ``"q0"``, ``"q1"``, … and symbols ``"0"``, ``"1"``, … if left out.

        Example:
            >>> DFA.from_table([[0, 1], [1, 0]], accepting=[0]).accepts("11")
            True
        """
        given = as_array("table", table)
        if given.ndim != 2 or not given.size:
            raise InputError(f"table has shape {list(given.shape)}; give [states, symbols], none empty")
        check_size(*given.shape)
        if given.dtype.kind in "fb" and np.isfinite(given).all() and (given == given.astype(np.int64)).all():
            given = given.astype(np.int64)  # whole numbers, as np.zeros and np.loadtxt have them
        array, accepting = integer_array("table", given), tuple(accepting)
        names = tuple(f"q{q}" for q in range(len(array))) if states is None else tuple(states)
        symbols = tuple(map(str, range(array.shape[1]))) if alphabet is None else tuple(alphabet)
        if array.shape != (len(names), len(symbols)):
            raise InputError(
                f"table has shape {list(array.shape)}; give one row for each of the {len(names)} states "
                f"and one column for each of the {len(symbols)} symbols"
            )
        check_members("state numbers", (initial, *accepting, *array.ravel().tolist()), len(names))
        rows = ({a: names[target] for a, target in zip(symbols, row, strict=True)} for row in array.tolist())
        transitions = dict(zip(names, rows, strict=True))
        return cls(names, symbols, transitions, names[initial], [names[q] for q in accepting])

    @cached_property
    def table(self) -> IntArray:
        """δ by numbers, read-only, shape ``[states, symbols]``, in the order of the fields."""
        table = np.array(
            [[self.state_numbers[self.transitions[q][a]] for a in self.alphabet] for q in self.states],
            dtype=np.int64,
        )
        table.setflags(write=False)
        return table

    @cached_property
    def state_numbers(self) -> Mapping[State, int]:
        """The position of every state in ``states``."""
        return MappingProxyType({state: number for number, state in enumerate(self.states)})

    @property
    def initial_number(self) -> int:
        """The position of the initial state."""
        return self.state_numbers[self.initial]

    @cached_property
    def accepting_mask(self) -> NDArray[np.bool_]:
        """Which states accept, shape ``[states]``."""
        return np.array([state in self.accepting for state in self.states])

    @checked
    def run(self, word: Sequence[str]) -> tuple[State, ...]:
        """Return the states on the way, from the initial one to the one after the last symbol."""
        states = [self.initial]
        for position, symbol in enumerate(word):
            if symbol not in self.transitions[self.initial]:
                raise InputError(
                    f"word holds {symbol!r} at position {position}, which is not in the alphabet; "
                    f"use {', '.join(map(repr, self.alphabet))}"
                )
            states.append(self.transitions[states[-1]][symbol])
        return tuple(states)

    def accepts(self, word: Sequence[str]) -> bool:
        """Return whether the run over the word ends in an accepting state."""
        return self.run(word)[-1] in self.accepting

    def complement(self) -> "DFA":
        """Return the automaton that accepts exactly the other words over the same alphabet."""
        rejecting = frozenset(self.states) - self.accepting
        return DFA(self.states, self.alphabet, self.transitions, self.initial, rejecting)

    def to_networkx(self) -> "nx.MultiDiGraph[State]":
        """Return the transition graph: one edge for each transition, keyed by its symbol.

        Nodes carry ``initial`` and ``accepting``, edges carry ``symbol``.
        """
        graph: nx.MultiDiGraph[State] = nx.MultiDiGraph()
        for state in self.states:
            graph.add_node(state, initial=state == self.initial, accepting=state in self.accepting)
        for state, row in self.transitions.items():
            for symbol, target in row.items():
                graph.add_edge(state, target, key=symbol, symbol=symbol)
        return graph

    def _five_tuple(self) -> tuple[object, ...]:
        delta = frozenset((q, a, target) for q, row in self.transitions.items() for a, target in row.items())
        return frozenset(self.states), frozenset(self.alphabet), delta, self.initial, self.accepting

    def __reduce__(self) -> tuple[type["DFA"], tuple[object, ...]]:
        return DFA, (self.states, self.alphabet, self._delta(), self.initial, self.accepting)

    def _delta(self) -> dict[State, dict[str, State]]:
        return {state: dict(row) for state, row in self.transitions.items()}

    def __eq__(self, other: object) -> bool:
        return self._five_tuple() == other._five_tuple() if isinstance(other, DFA) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._five_tuple())

    def __repr__(self) -> str:
        accepting = tuple(state for state in self.states if state in self.accepting)
        return (
            f"DFA(states={self.states!r}, alphabet={self.alphabet!r}, transitions={self._delta()!r}, "
            f"initial={self.initial!r}, accepting={accepting!r})"
        )


def check_size(states: int, symbols: int) -> None:
    """Refuse an automaton whose transitions do not fit into memory."""
    what = f"an automaton of {states} states and {symbols} symbols"
    check_memory(what, states * (300 + 80 * symbols), "give a smaller one")


def _distinct(field: str, values: Iterable[Named]) -> tuple[Named, ...]:
    check_type(field, values, Iterable, "give a list of names")
    listed = tuple(values)
    if not listed:
        raise InputError(f"{field} is empty; give at least one entry")
    check_different(field, listed)
    return listed
