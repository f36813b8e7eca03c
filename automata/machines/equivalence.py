"""Algorithms on automata: products, minimisation, comparison of languages, the transition monoid."""

from collections import deque
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from automata.checks import checked
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.monoids.cayley import IntArray
from automata.monoids.groups import LARGEST_ORDER, transformation_closure
from automata.monoids.monoid import Monoid

Operation = Literal["intersection", "union", "difference", "symmetric difference"]

MOST_PAIRS = 1_000_000
"""States of a product; they take a gigabyte."""
_ACCEPTS = {
    "intersection": np.logical_and,
    "union": np.logical_or,
    "difference": np.greater,
    "symmetric difference": np.not_equal,
}


@checked
def product(first: DFA, second: DFA, operation: Operation = "intersection") -> DFA:
    """Return the automaton that runs both side by side, restricted to the reachable pairs of states.

    For languages L and K over the same symbols it accepts L ∩ K, L ∪ K, L minus K, or what lies in
    exactly one of them. InputError if the alphabets differ, or the operation is unknown.

    Example:
        >>> from automata.machines.named_dfas import modular_counter_dfa
        >>> by_six = product(modular_counter_dfa(2), modular_counter_dfa(3))
        >>> len(by_six.states), by_six.accepts("1" * 6), by_six.accepts("1" * 4)
        (6, True, False)
    """
    right = _columns(first, second)
    left_table, right_table = first.table, second.table[:, right]
    start = (first.initial_number, second.initial_number)
    numbers = {start: 0}
    pairs = [start]
    rows: list[list[int]] = []
    for p, q in pairs:  # grows while it is read
        row = []
        for target in zip(left_table[p].tolist(), right_table[q].tolist(), strict=True):
            if target not in numbers:
                if len(pairs) == MOST_PAIRS:
                    raise InputError(f"the product has more than {MOST_PAIRS} states; give smaller automata")
                numbers[target] = len(pairs)
                pairs.append(target)
            row.append(numbers[target])
        rows.append(row)
    chosen = np.array(pairs)
    accepts = _ACCEPTS[operation](first.accepting_mask[chosen[:, 0]], second.accepting_mask[chosen[:, 1]])
    names = [(first.states[p], second.states[q]) for p, q in pairs]
    return DFA.from_table(rows, 0, np.flatnonzero(accepts).tolist(), names, first.alphabet)


@checked
def minimise(dfa: DFA) -> DFA:
    """Return the smallest automaton of the same language, states numbered in breadth-first order.

    Two automata over the same listed alphabet have the same language exactly if this returns equal ones.
    Unreachable states are dropped, then Hopcroft's algorithm (1971) splits the rest, always by the smaller
    half.

    Example:
        >>> four = DFA.from_table([[1, 1], [2, 2], [3, 3], [0, 0]], accepting=[0, 2])
        >>> minimise(four) == DFA.from_table([[1, 1], [0, 0]], accepting=[0])
        True
    """
    reachable = reachable_states(dfa.table, dfa.initial_number)
    number = np.full(len(dfa.states), -1)
    number[reachable] = np.arange(len(reachable))
    table = number[dfa.table[reachable]]
    blocks = _hopcroft(table, dfa.accepting_mask[reachable])
    representative = np.array([min(block) for block in blocks])
    block_of = np.empty(len(table), dtype=np.int64)
    for index, block in enumerate(blocks):
        block_of[list(block)] = index
    quotient = block_of[table[representative]]
    order = reachable_states(quotient, int(block_of[0]))
    rank = np.argsort(order)
    accepting = dfa.accepting_mask[reachable][representative[order]]
    return DFA.from_table(rank[quotient[order]], 0, np.flatnonzero(accepting).tolist(), alphabet=dfa.alphabet)


@checked
def distinguishing_word(first: DFA, second: DFA) -> tuple[str, ...] | None:
    """Return a shortest word that one automaton accepts and the other does not, or None if none exists.

    Among the shortest, the first in the order of ``first.alphabet``. InputError if the alphabets differ.

    Example:
        >>> from automata.machines.named_dfas import modular_counter_dfa
        >>> distinguishing_word(modular_counter_dfa(2), modular_counter_dfa(4))
        ('1', '1')
    """
    right = _columns(first, second)
    start = (first.initial_number, second.initial_number)
    came_from: dict[tuple[int, int], tuple[tuple[int, int], str] | None] = {start: None}
    queue = deque([start])
    while queue:
        pair = queue.popleft()
        p, q = pair
        if first.accepting_mask[p] != second.accepting_mask[q]:
            word = []
            while (step := came_from[pair]) is not None:
                pair, symbol = step
                word.append(symbol)
            return tuple(reversed(word))
        for column, symbol in enumerate(first.alphabet):
            target = (int(first.table[p, column]), int(second.table[q, right[column]]))
            if target not in came_from:
                came_from[target] = (pair, symbol)
                queue.append(target)
    return None


@checked
def is_equivalent(first: DFA, second: DFA) -> bool:
    """Return whether both accept the same language; InputError if the alphabets differ.

    Example:
        >>> from automata.machines.named_dfas import parity_dfa
        >>> is_equivalent(parity_dfa(), parity_dfa().complement())
        False
    """
    return distinguishing_word(first, second) is None


@checked
def transition_monoid(dfa: DFA, largest_order: int = LARGEST_ORDER) -> Monoid:
    """Return the monoid of the maps of the states that words induce, each named by its shortest word.

    The product u·v is the map of the word uv: u is read first. The identity is named ``"ε"``. For a minimal
    automaton it is the syntactic monoid of the language. InputError if there are more than ``largest_order``
    maps.

    Example:
        >>> from automata.machines.named_dfas import flip_flop_dfa
        >>> monoid = transition_monoid(flip_flop_dfa())
        >>> monoid.order, monoid.is_aperiodic
        (3, True)
    """
    _, table, words = transformation_closure(dfa.table.T, "reading", largest_order)
    separator = "" if all(len(symbol) == 1 for symbol in dfa.alphabet) else " "
    names = [separator.join(dfa.alphabet[a] for a in word) or "ε" for word in words]
    return Monoid(table, names, f"transition monoid of order {len(words)}")


def _columns(first: DFA, second: DFA) -> list[int]:
    if set(first.alphabet) != set(second.alphabet):
        only = sorted(set(first.alphabet) ^ set(second.alphabet))
        raise InputError(
            f"the alphabets differ in {', '.join(map(repr, only))}; give automata over the same symbols"
        )
    return [second.alphabet.index(symbol) for symbol in first.alphabet]


def reachable_states(table: IntArray, start: int) -> IntArray:
    """Return the states that words lead to, breadth first."""
    seen = {start}
    order = [start]
    for state in order:  # grows while it is read
        for target in table[state].tolist():
            if target not in seen:
                seen.add(target)
                order.append(target)
    return np.array(order)


def _hopcroft(table: IntArray, accepting: NDArray[np.bool_]) -> list[set[int]]:
    """Return the classes of states that no word distinguishes."""
    table = np.unique(table, axis=1)  # symbols that act alike distinguish alike
    symbols = range(table.shape[1])
    sources: list[list[set[int]]] = [[set() for _ in table] for _ in symbols]
    for state, row in enumerate(table.tolist()):
        for symbol, target in enumerate(row):
            sources[symbol][target].add(state)
    halves = (set(np.flatnonzero(accepting).tolist()), set(np.flatnonzero(~accepting).tolist()))
    blocks = [half for half in halves if half]
    block_of = [0] * len(table)
    for index, block in enumerate(blocks):
        for state in block:
            block_of[state] = index
    smaller = min(range(len(blocks)), key=lambda index: len(blocks[index]))
    waiting = {(smaller, symbol) for symbol in symbols}
    while waiting:
        splitter, symbol = waiting.pop()
        touched: dict[int, set[int]] = {}
        for target in blocks[splitter]:
            for source in sources[symbol][target]:
                touched.setdefault(block_of[source], set()).add(source)
        for index, inside in touched.items():
            outside = blocks[index] - inside
            if not outside:
                continue
            # the new block is the smaller half: where the old one waits both must, elsewhere the smaller does
            blocks[index], fresh = (inside, outside) if len(outside) <= len(inside) else (outside, inside)
            for state in fresh:
                block_of[state] = len(blocks)
            waiting |= {(len(blocks), a) for a in symbols}
            blocks.append(fresh)
    return blocks
