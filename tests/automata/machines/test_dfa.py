"""Automata and named ones: languages by definition, immutable five-tuples, what is refused."""

import copy
import pickle
import re
from collections.abc import Callable
from itertools import product as words_of

import networkx as nx
import numpy as np
import pytest

from automata.machines import named_dfas as named
from automata.machines.dfa import DFA
from automata.monoids.groups import cyclic_group, reset_monoid, symmetric_group
from automata.monoids.monoid import Monoid
from tests.refusals import refusals, refused_changes

FIVE_TUPLE = {
    "states": ("p", "q"),
    "alphabet": ("a", "b"),
    "transitions": {"p": {"a": "q", "b": "p"}, "q": {"a": "p", "b": "q"}},
    "initial": "p",
    "accepting": ("q",),
}


def test_complement_accepts_the_other_words() -> None:
    dfa = named.dyck_dfa(2)
    for length in range(7):
        for word in words_of("()", repeat=length):
            assert dfa.complement().accepts(word) != dfa.accepts(word)


def test_equality_is_that_of_five_tuples() -> None:
    dfa = DFA(**FIVE_TUPLE)  # type: ignore[arg-type]
    listed_otherwise = DFA(
        ["q", "p"], "ba", {"q": {"b": "q", "a": "p"}, "p": {"b": "p", "a": "q"}}, "p", {"q"}
    )
    assert dfa == listed_otherwise
    assert hash(dfa) == hash(listed_otherwise)
    assert dfa != dfa.complement()
    assert dfa != "p"
    assert eval(repr(listed_otherwise)) == dfa


def test_immutable() -> None:
    dfa = named.parity_dfa()
    with pytest.raises(AttributeError):
        dfa.initial = "odd"  # type: ignore[misc]
    with pytest.raises(TypeError):
        dfa.transitions["even"]["0"] = "odd"  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        dfa.table[0, 0] = 1


test_each_broken_invariant_is_named = refused_changes(
    DFA,
    FIVE_TUPLE,
    ({"states": ()}, "states is empty"),
    ({"states": ("p", "q", "p")}, "states holds 'p' twice"),
    ({"alphabet": ()}, "alphabet is empty"),
    ({"alphabet": ("a", "b", "a")}, "alphabet holds 'a' twice"),
    ({"initial": "r"}, "initial state 'r'"),
    ({"accepting": ("q", "r")}, "accepting state 'r'"),
    ({"transitions": {"p": {"a": "q", "b": "p"}}}, "state 'q' has no transition under 'a'"),
    ({"transitions": {"p": {"a": "q"}, "q": {"a": "p", "b": "q"}}}, "'p' has no transition under 'b'"),
    ({"transitions": {**FIVE_TUPLE["transitions"], "r": {}}}, "leave state 'r'"),  # type: ignore[dict-item]
    ({"transitions": {"p": {"a": "q", "b": "p", "c": "p"}, "q": {"a": "p", "b": "q"}}}, "read 'c'"),
    ({"transitions": {"p": {"a": "r", "b": "p"}, "q": {"a": "p", "b": "q"}}}, "leads to 'r'"),
)


def test_table_round_trip() -> None:
    dfa = named.dyck_dfa(3)
    accepting = np.flatnonzero(dfa.accepting_mask).tolist()
    assert DFA.from_table(dfa.table, dfa.initial_number, accepting, dfa.states, dfa.alphabet) == dfa


def test_networkx_export_holds_every_transition() -> None:
    dfa = named.dyck_dfa(2)
    graph = dfa.to_networkx()
    assert graph.number_of_edges() == len(dfa.states) * len(dfa.alphabet)
    assert all(dfa.transitions[source][symbol] == target for source, target, symbol in graph.edges(keys=True))
    assert [state for state, data in graph.nodes(data=True) if data["initial"]] == [""]
    assert [state for state, data in graph.nodes(data=True) if data["accepting"]] == [""]
    assert nx.descendants(graph, "error") == set()


@pytest.mark.parametrize("again", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_pickled_and_copied_it_stays_the_same_and_immutable(again: Callable[[DFA], DFA]) -> None:
    dfa = DFA.from_table([[0, 1], [1, 0]], accepting=[0], states=("even", ("odd", 1)))
    assert dfa.table.shape == (2, 2)  # which is kept
    back = again(dfa)
    assert back == dfa
    assert repr(back) == repr(dfa)
    with pytest.raises(TypeError):
        back.transitions["even"]["0"] = "even"  # type: ignore[index]


def test_whole_numbers_of_any_type_are_numbers_of_states() -> None:
    expected = DFA.from_table([[0, 1], [1, 0]], accepting=[0])
    for kind in (float, bool, np.uint8):
        assert DFA.from_table(np.array([[0, 1], [1, 0]], dtype=kind), accepting=[0]) == expected


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
        (named.parity_dfa(), lambda word: word.count("1") % 2 == 0),
        (named.modular_counter_dfa(3), lambda word: word.count("1") % 3 == 0),
        (named.cyclic_navigation_dfa(4), lambda word: (word.count("right") - word.count("left")) % 4 == 0),
        (named.flip_flop_dfa(), lambda word: ("0" + "".join(a[-1] for a in word if a != "keep"))[-1] == "1"),
        (named.dyck_dfa(2, ["()", "[]"]), lambda word: is_balanced(word, 2)),
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
    dfa = named.monoid_dfa(monoid, range(monoid.order))
    for word in np.random.default_rng(0).integers(0, monoid.order, size=(30, 7)).tolist():
        product = monoid.multiply(*word)
        assert dfa.run([monoid.element_names[x] for x in word])[-1] == monoid.element_names[product]


def test_monoid_automaton_accepts_what_is_asked() -> None:
    even = named.monoid_dfa(symmetric_group(3), accepting=[0, 3, 4])
    assert even.accepts(["132", "213"])
    assert not even.accepts(["132"])


test_bad_input_is_refused = refusals(
    (lambda: DFA.from_table([0, 1]), r"shape \[2\]"),
    (lambda: DFA.from_table([[0, 2], [0, 1]]), "state numbers holds 2"),
    (lambda: DFA.from_table([[0, 1], [0, 1]], initial=2), "state numbers holds 2"),
    (lambda: DFA.from_table([[0, 1], [0, 1]], states=["p"]), "each of the 1 states"),
    (lambda: DFA.from_table([[0.5, 1.0], [1.0, 0.0]]), "table holds float64 entries; give integers"),
    (lambda: DFA.from_table([[0, 1], [1]]), "give rows of one length"),
    (lambda: DFA.from_table([[], []]), r"shape \[2, 0\]"),
    (lambda: DFA.from_table([[0, 1], [0, 1]], accepting=["q0"]), "accepting is 'q0'; give a whole number"),  # type: ignore[list-item]
    (lambda: DFA.from_table([[0, 1], [0, 1]], accepting=[[0]]), r"accepting is \[0\]; give a whole number"),  # type: ignore[list-item]
    (lambda: DFA.from_table([[0, 1], [0, 1]], accepting=0), "accepting is 0; give a list"),  # type: ignore[arg-type]
    (lambda: DFA.from_table([[0, 1], [0, 1]], accepting=iter([0, 2])), "state numbers holds 2"),
    (lambda: DFA.from_table([[0, 1], [0, 1]], states=3), "states is 3; give a list"),  # type: ignore[arg-type]
    (lambda: named.modular_counter_dfa(0), "modulus is 0"),
    (lambda: named.flip_flop_dfa(1), "values is 1"),
    (lambda: named.cyclic_navigation_dfa(0), "places is 0"),
    (lambda: named.dyck_dfa(0), "max_depth is 0"),
    (lambda: named.dyck_dfa(2, ["("]), r"brackets holds '\('"),
    (lambda: named.dyck_dfa(2, []), "brackets is empty"),
    (lambda: named.dyck_dfa(2, ["()", "(]"]), r"'\(' twice"),
    (lambda: named.dyck_dfa(40, ["()", "[]"]), "too many states"),
    (lambda: named.monoid_dfa(cyclic_group(1)), "generators is empty"),
    (lambda: named.monoid_dfa(cyclic_group(3), [3]), "elements of Z3 holds 3"),
    (lambda: named.monoid_dfa(cyclic_group(3), accepting=[7]), "elements of Z3 holds 7"),
    # beyond the memory, at once
    (lambda: named.modular_counter_dfa(10**12), "GiB of memory"),
    (lambda: named.flip_flop_dfa(10**7), "GiB of memory"),
    (lambda: named.cyclic_navigation_dfa(10**12), "GiB of memory"),
    (lambda: named.dyck_dfa(10**6), "too many states"),
    (lambda: named.dyck_dfa(10**12, ["()", "[]"]), "GiB of memory"),
    (lambda: DFA.from_table(np.broadcast_to(0, (10**7, 10**3))), "GiB of memory"),
)
