"""Automata by name: parity, counters, memories, brackets, navigation, monoids."""

from collections.abc import Iterable, Sequence

import numpy as np

from automata.checks import check_integer, check_members, check_memory, checked
from automata.errors import InputError
from automata.machines.dfa import DFA, check_size
from automata.monoids.monoid import Monoid


def parity_dfa() -> DFA:
    """Return the automaton of the binary words with an even number of ones.

    Example:
        >>> parity_dfa().accepts("1001"), parity_dfa().accepts("1000")
        (True, False)
    """
    return DFA.from_table([[0, 1], [1, 0]], accepting=[0], states=("even", "odd"))


@checked
def modular_counter_dfa(modulus: int) -> DFA:
    """Return the automaton of the binary words whose number of ones is divisible by the modulus.

    InputError if the modulus is below 1.

    Example:
        >>> modular_counter_dfa(3).accepts("10101"), modular_counter_dfa(3).accepts("11")
        (True, False)
    """
    _at_least("modulus", modulus, 1)
    check_size(modulus, 2)
    table = [[count, (count + 1) % modulus] for count in range(modulus)]
    return DFA.from_table(table, accepting=[0], states=range(modulus))


@checked
def flip_flop_dfa(values: int = 2) -> DFA:
    """Return the memory with the symbols "keep" and "write 0", "write 1", …; it accepts when it holds 1.

    The initial value is 0. InputError if there are fewer than 2 values.

    Example:
        >>> flip_flop_dfa().run(["write 1", "keep", "write 0"])
        (0, 1, 1, 0)
    """
    _at_least("values", values, 2)
    check_size(values, values + 1)
    writes = range(values)
    table = [[held, *writes] for held in writes]
    return DFA.from_table(table, 0, [1], writes, ["keep", *(f"write {value}" for value in writes)])


@checked
def dyck_dfa(max_depth: int, brackets: Sequence[str] = ("()",)) -> DFA:
    """Return the automaton of the balanced words of brackets, nested at most ``max_depth`` deep.

    A state is the string of the brackets that are open, and "error" is a sink. InputError if the depth is
    below 1, a pair is not two characters, or a character is used twice.

    Example:
        >>> brackets = dyck_dfa(2, ["()", "[]"])
        >>> [brackets.accepts(word) for word in ("([])()", "([)]", "((()))")]
        [True, False, False]
    """
    _at_least("max_depth", max_depth, 1)
    if not brackets:
        raise InputError("brackets is empty; give at least one pair such as '()'")
    for pair in brackets:
        if not isinstance(pair, str) or len(pair) != 2:
            raise InputError(f"brackets holds {pair!r}; give pairs of two characters such as '()'")
    if max_depth > 10**4 or len(brackets) ** max_depth > 10**5:
        raise InputError(
            f"max_depth is {max_depth} with {len(brackets)} pairs: too many states; lower one of them"
        )
    closer_of = {pair[0]: pair[1] for pair in brackets}
    alphabet = [character for pair in brackets for character in pair]
    stacks = [""]
    for stack in stacks:  # grows while it is read
        if len(stack) < max_depth:
            stacks.extend(stack + opener for opener in closer_of)

    def after(stack: str, symbol: str) -> str:
        if symbol in closer_of:
            return stack + symbol if len(stack) < max_depth else "error"
        return stack[:-1] if stack and closer_of[stack[-1]] == symbol else "error"

    transitions = {stack: {symbol: after(stack, symbol) for symbol in alphabet} for stack in stacks}
    transitions["error"] = dict.fromkeys(alphabet, "error")
    return DFA([*stacks, "error"], alphabet, transitions, "", [""])


@checked
def cyclic_navigation_dfa(places: int) -> DFA:
    """Return the walk on a ring with the symbols "stay", "left", "right"; it accepts at its start, place 0.

    InputError if there are fewer than 1 places.

    Example:
        >>> cyclic_navigation_dfa(5).run(["left", "stay", "right", "right"])
        (0, 4, 4, 0, 1)
    """
    _at_least("places", places, 1)
    check_size(places, 3)
    ring = np.arange(places)
    table = np.stack([ring, (ring - 1) % places, (ring + 1) % places], axis=1)
    return DFA.from_table(table, 0, [0], range(places), ["stay", "left", "right"])


@checked
def monoid_dfa(monoid: Monoid, generators: Sequence[int] | None = None, accepting: Iterable[int] = ()) -> DFA:
    """Return the automaton that multiplies: from the identity, symbol g leads from x to x·g.

    States and symbols are named by the elements. Symbols are ``monoid.generators`` if left out; the identity
    accepts if nothing else is named. InputError if no generator is given or needed, or an element does not
    exist.

    Example:
        >>> from automata.monoids.groups import symmetric_group
        >>> S3 = symmetric_group(3)
        >>> automaton = monoid_dfa(S3, [S3.index("213"), S3.index("231")])
        >>> automaton.run(["213", "231"])
        ('123', '213', '132')
    """
    symbols = monoid.generators if generators is None else tuple(generators)
    if not symbols:
        raise InputError("generators is empty; give at least one element to use as a symbol")
    accepting = tuple(accepting) or (monoid.identity,)
    check_members(f"elements of {monoid.name}", (*symbols, *accepting), monoid.order)
    return DFA.from_table(
        monoid.table[:, symbols],
        monoid.identity,
        accepting,
        monoid.element_names,
        [monoid.element_names[symbol] for symbol in symbols],
    )


def _at_least(field: str, value: int, smallest: int) -> None:
    check_memory(f"{field} {value}", 1000 * value, "give a smaller one")  # a state has a dictionary
    check_integer(field, value, smallest)
