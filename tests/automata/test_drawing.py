from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from automata.drawing import draw_cayley_graph, draw_dfa, draw_dfa_or_table, draw_transition_table
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.named_dfas import modular_counter_dfa, monoid_dfa, parity_dfa
from automata.monoids.groups import symmetric_group
from automata.monoids.monoid import Monoid


@pytest.fixture(autouse=True)
def _without_a_screen() -> Iterator[None]:
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def test_arrows_that_coincide_in_a_cayley_graph_are_named() -> None:
    nilpotent = Monoid([[0, 1, 2], [1, 2, 2], [2, 2, 2]], element_names="1a0")
    texts = [text.get_text() for text in draw_cayley_graph(nilpotent, [1, 2]).texts]
    assert texts.count("a, 0") == 2  # from a to 0 and from 0 to itself


@pytest.mark.parametrize("draw", [draw_dfa, draw_dfa_or_table, draw_transition_table])
def test_what_is_drawn_and_where_is_checked(draw: Any) -> None:
    with pytest.raises(InputError, match="ax is 3; give axes"):
        draw(parity_dfa(), 3)
    with pytest.raises(InputError, match="dfa is 3; give a DFA"):
        draw(3)
    with pytest.raises(InputError, match="200 states"):
        draw_dfa(modular_counter_dfa(200))


def test_an_automaton_of_words_is_a_table() -> None:
    """Words of five letters overflow circles, and hide short arrows that they stand on."""
    row = {"start": "clean", "bump": "clean"}
    assert draw_dfa_or_table(
        DFA(("dock", "clean"), ("start", "bump"), {"dock": row, "clean": row}, "dock", ())
    ).tables


def test_where_long_names_have_no_space_numbers_stand_for_states_and_symbols() -> None:
    symbols = ("half a euro", "one euro", "money back", "choose a drink")
    rows = dict.fromkeys(("enough money", "nothing"), dict.fromkeys(symbols, "nothing"))
    dfa = DFA(tuple(rows), symbols, rows, "enough money", ())
    figure = plt.figure(figsize=(2.2, 2.2))
    axes = draw_transition_table(dfa, figure.subplots())
    cells = {place: cell.get_text().get_text() for place, cell in axes.tables[0].get_celld().items()}
    assert [cells[0, column] for column in range(5)] == ["", "a", "b", "c", "d"]
    assert [cells[1, column] for column in range(5)] == ["0 enough money", "1", "1", "1", "1"]
    key = " ".join(axes.texts[0].get_text().split())
    assert key == ", ".join(f"{number} = {symbol}" for number, symbol in zip("abcd", symbols, strict=True))


def test_labels_of_arrows_do_not_hide_each_other() -> None:
    states = tuple("abcde")
    rows = {state: {other: other for other in states} for state in states}
    texts = draw_dfa(DFA(states, states, rows, "a", ())).texts[:25]  # behind them the names of the states
    places = np.array([text.get_position() for text in texts])
    apart = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(25)
    assert apart.min() > 0.25


def test_a_dense_automaton_is_a_table_of_its_transitions() -> None:
    dfa = monoid_dfa(symmetric_group(3), range(6))
    axes = draw_dfa_or_table(dfa)
    assert not axes.patches
    cells = {place: cell.get_text().get_text() for place, cell in axes.tables[0].get_celld().items()}
    assert cells[1, 0] == f"{dfa.initial}*"  # the identity is accepted, and nothing else
    for row in range(1, 7):
        for column in range(1, 7):
            state = next(state for state in dfa.states if str(state) == cells[row, 0].removesuffix("*"))
            assert cells[row, column].removesuffix("*") == str(dfa.transitions[state][cells[0, column]])
