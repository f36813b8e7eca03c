import re
from collections.abc import Callable
from itertools import product as words_of

import numpy as np
import pytest

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.named_dfas import (
    cyclic_navigation_dfa,
    dyck_dfa,
    flip_flop_dfa,
    modular_counter_dfa,
    monoid_dfa,
    parity_dfa,
)
from automata.monoids.groups import cyclic_group, reset_monoid, symmetric_group
from automata.monoids.monoid import Monoid
from tests.refusals import refusals


def is_balanced(word: tuple[str, ...], max_depth: int) -> bool:
    """Delete innermost pairs, one nesting level a round."""
    text, rounds = "".join(word), 0
    while text:
        shorter = re.sub(r"(\(\)|\[\])+", "", text) if rounds else text
        depth = 0
        for character in text:
            depth += 1 if character in "([" else -1
            if depth > max_depth:
                return False
        if rounds and shorter == text:
            return False
        text, rounds = shorter, rounds + 1
    return True


@pytest.mark.parametrize(
    ("dfa", "definition"),
    [
        (parity_dfa(), lambda word: word.count("1") % 2 == 0),
        (modular_counter_dfa(3), lambda word: word.count("1") % 3 == 0),
        (cyclic_navigation_dfa(4), lambda word: (word.count("right") - word.count("left")) % 4 == 0),
        (flip_flop_dfa(), lambda word: ("0" + "".join(a[-1] for a in word if a != "keep"))[-1] == "1"),
        (dyck_dfa(2, ["()", "[]"]), lambda word: is_balanced(word, 2)),
    ],
    ids=["parity", "counter", "navigation", "flip-flop", "dyck"],
)
def test_languages_by_definition(dfa: DFA, definition: Callable[[tuple[str, ...]], bool]) -> None:
    for length in range(7):
        for word in words_of(dfa.alphabet, repeat=length):
            assert dfa.accepts(word) == definition(word), word


@pytest.mark.parametrize(
    "monoid", [symmetric_group(3), reset_monoid(3), cyclic_group(5)], ids=lambda m: m.name
)
def test_monoid_automaton_multiplies(monoid: Monoid) -> None:
    dfa = monoid_dfa(monoid, range(monoid.order))
    for word in np.random.default_rng(0).integers(0, monoid.order, size=(30, 7)).tolist():
        product = monoid.multiply(*word)
        assert dfa.run([monoid.element_names[x] for x in word])[-1] == monoid.element_names[product]


def test_monoid_automaton_accepts_what_is_asked() -> None:
    even = monoid_dfa(symmetric_group(3), accepting=[0, 3, 4])
    assert even.accepts(["132", "213"])
    assert not even.accepts(["132"])


test_bad_input_is_refused = refusals(
    (lambda: modular_counter_dfa(0), "modulus is 0"),
    (lambda: flip_flop_dfa(1), "values is 1"),
    (lambda: cyclic_navigation_dfa(0), "places is 0"),
    (lambda: dyck_dfa(0), "max_depth is 0"),
    (lambda: dyck_dfa(2, ["("]), r"brackets holds '\('"),
    (lambda: dyck_dfa(2, []), "brackets is empty"),
    (lambda: dyck_dfa(2, ["()", "(]"]), r"'\(' twice"),
    (lambda: dyck_dfa(40, ["()", "[]"]), "too many states"),
    (lambda: monoid_dfa(cyclic_group(1)), "generators is empty"),
    (lambda: monoid_dfa(cyclic_group(3), [3]), "elements of Z3 holds 3"),
    (lambda: monoid_dfa(cyclic_group(3), accepting=[7]), "elements of Z3 holds 7"),
)


@pytest.mark.parametrize(
    "build",
    [
        lambda: modular_counter_dfa(10**12),
        lambda: flip_flop_dfa(10**7),
        lambda: cyclic_navigation_dfa(10**12),
        lambda: dyck_dfa(10**6),
        lambda: dyck_dfa(10**12, ["()", "[]"]),
        lambda: DFA.from_table(np.broadcast_to(0, (10**7, 10**3))),
    ],
)
def test_automata_beyond_the_memory_are_refused_at_once(build: Callable[[], DFA]) -> None:
    with pytest.raises(InputError):
        build()
