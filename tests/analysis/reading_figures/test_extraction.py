"""The figure of an extraction shows the automaton, the states and the shares that were found."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from analysis.extraction import drawing as extraction_drawing
from analysis.framework.output import json_ready
from analysis.framework.visited_states import sample_sequences
from tests.drawn_figures import WIDTHS, labelled, panel


def test_an_extracted_automaton_is_drawn_as_it_is(drawn: Callable[..., Figure]) -> None:
    axes = panel(drawn("extraction"), "extracted automaton")
    assert len([patch for patch in axes.patches if isinstance(patch, Circle)]) == 2
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "0", "1", "1", "1"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_dense_automaton_is_the_multiplication_table_of_its_group(
    width: float, drawn: Callable[..., Figure]
) -> None:
    """36 arrows between 6 states would cover each other: the table is that of S3, from its definition."""
    axes = panel(drawn("dense extraction", width), "extracted automaton")
    assert not [patch for patch in axes.patches if isinstance(patch, Circle)]
    cells = {place: cell.get_text().get_text() for place, cell in axes.tables[0].get_celld().items()}
    columns = [cells[0, column] for column in range(1, 7)]
    rows = [cells[row, 0] for row in range(1, 7)]
    assert rows[0] == "123"
    assert sorted(rows) == sorted(columns) == ["123", "132", "213", "231", "312", "321"]
    for row, state in enumerate(rows, start=1):
        for column, token in enumerate(columns, start=1):
            assert cells[row, column] == "".join(state[int(place) - 1] for place in token)


def test_visited_states_have_the_colour_of_the_state_that_the_task_is_in(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    """The legend names an element of S3; the dots of its colour are those after words that multiply to it."""
    analysis = found("dense extraction")
    axes = panel(drawn("dense extraction"), "visited states")
    _, labels = sample_sequences(analysis.task, 32, 24, 0)
    # the initial state, the states after every token position by position, and after each token by itself
    alone = analysis.task.table[analysis.task.initial_state]
    truth = np.concatenate([[analysis.task.initial_state], labels.numpy().T.ravel(), alone])
    counts = {name: int((truth == number).sum()) for number, name in enumerate(analysis.task.state_names)}
    dots = [dot for dot in axes.collections if isinstance(dot, PathCollection)]
    assert {str(dot.get_label()): len(np.asarray(dot.get_offsets())) for dot in dots} == counts


def test_accuracy_and_fidelity_are_not_mixed_up(found: Callable[[str], Any]) -> None:
    analysis = found("extraction")
    correct = analysis.correct.copy()
    correct[:4, 10:] = False  # right at half of the words only
    shown = labelled(
        panel(extraction_drawing.draw(dataclasses.replace(analysis, correct=correct)), "fresh words")
    )
    np.testing.assert_array_equal(shown["accuracy (model right)"], correct.mean(axis=0))
    np.testing.assert_array_equal(shown["fidelity (model as automaton)"], analysis.agrees.mean(axis=0))


def test_the_verdict_of_an_extraction_is_what_words_and_shares_say(found: Callable[[str], Any]) -> None:
    for name in ("extraction", "dense extraction"):
        analysis = found(name)
        numbers = json_ready(analysis.numbers())
        fidelity = np.mean(numbers["fidelity_by_position"][: analysis.length])
        assert numbers["difference"] is None
        assert numbers["verdict"] == ("equivalent" if fidelity >= 0.99 else "inconclusive")
        assert numbers["sentence"].startswith(f"equivalent to the automaton of {analysis.task.name}: ")
        assert f"{100 * fidelity:.2f}% of tokens at length {analysis.length}" in numbers["sentence"]
        assert numbers["sentence"] in extraction_drawing.caption(analysis)
