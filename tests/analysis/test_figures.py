"""The figures of all analyses: legible at paper width; curves that could be mixed up are the right ones."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from analysis import extraction, length_generalization, questions
from analysis.framework.output import RunIdentity
from analysis.length_generalization import LengthAnalysis, LengthSettings, RunAccuracy
from implicit.runs.loading import Run, load_run
from tests.figure_texts import unreadable
from tests.small_models import untrained
from website.gallery import SHOWN

SUM_ORDER = 1e-12
"""Means are sums of the same numbers in another order."""
STORED = "lazy-swaps-gated-deltanet"


def runs_with_a_belief() -> list[Run]:
    """A trained linear model, three seeds of an untrained LSTM, and a Transformer, whose state grows."""
    others = (("lstm", 0), ("lstm", 1), ("lstm", 2), ("transformer", 0))
    task = "lazy-swaps-3-reveals"
    return [load_run(STORED), *(untrained(model, task, seed=seed, length=32) for model, seed in others)]


SMALL = {**SHOWN, "all_words": ("parity-small", {"length": 2})}
"""A run and settings for every analysis with a figure; a cover is drawn in test_lengths."""


@cache
def found(name: str) -> Any:
    """The answer of an analysis, made once."""
    question: Any = questions.question_named(name)
    run, chosen = SMALL[name]
    settings = question.settings(**chosen)
    if not question.takes_several or hasattr(question, "measure"):
        return question.measure(load_run(run), settings)
    runs = {"belief": runs_with_a_belief(), "mechanism": [load_run("s3"), load_run("s3-gated-deltanet")]}
    return question.compare(runs.get(name, [load_run(run)]), settings)


@cache
def drawn(name: str, width: float = 6.75) -> Figure:
    """Its figure, drawn once."""
    draw = questions.question_named(name).draw
    assert draw is not None
    figure: Figure = draw(found(name), width)
    return figure


def panel(figure: Figure, title: str) -> Axes:
    """The one panel whose title begins like that."""
    (axes,) = [axes for axes in figure.axes if axes.get_title().startswith(title)]
    return axes


def labelled(axes: Axes) -> dict[str, NDArray[np.float64]]:
    """The y-data of every line that the legend names, found by the look that a reader goes by."""
    legend = axes.get_legend()
    assert legend is not None
    curves = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if isinstance(handle, Line2D):
            same = [line for line in axes.lines if look(line) == look(handle)]
            assert same, f"no line looks like {text.get_text()!r}"
            curves[text.get_text()] = np.asarray(same[-1].get_ydata(), dtype=float)
    return curves


def look(line: Line2D) -> tuple[Any, ...]:
    """The look that tells a line from others: colour, dashes relative to its breadth, marker, breadth."""
    offset, dashes = line._unscaled_dash_pattern  # type: ignore[attr-defined]
    return str(line.get_color()), offset, tuple(dashes or ()), line.get_marker(), line.get_linewidth()


def test_every_analysis_with_a_figure_is_drawn() -> None:
    with_figure = {question.name for question in questions.QUESTIONS if question.draw is not None}
    assert with_figure == {*SMALL, "all_lengths"}


@pytest.mark.parametrize("width", [3.3, 6.75])
@pytest.mark.parametrize("name", SMALL)
def test_it_is_drawn_as_wide_as_asked_and_can_be_read(name: str, width: float) -> None:
    figure = drawn(name, width)
    assert unreadable(figure) == []
    assert figure.get_size_inches()[0] == width


def test_accuracy_and_fidelity_are_not_mixed_up() -> None:
    analysis = found("extraction")
    correct = analysis.correct.copy()
    correct[:4, 10:] = False  # right at half of the words only
    shown = labelled(panel(extraction.draw(dataclasses.replace(analysis, correct=correct)), "fresh words"))
    np.testing.assert_array_equal(shown["accuracy (model right)"], correct.mean(axis=0))
    np.testing.assert_array_equal(shown["fidelity (model as automaton)"], analysis.agrees.mean(axis=0))


def test_seeds_of_a_model_are_one_group_with_a_band() -> None:
    rng, runs = np.random.default_rng(0), []
    for number, (model, seed) in enumerate([("lstm", 0), ("gru", 0), ("lstm", 1), ("lstm", 2)]):
        identity = RunIdentity(f"run-{number}", "parity", model, 10, 16, seed, "0" * 64)
        correct = rng.random((40, 64)) < 0.5 + 0.1 * number
        runs.append(RunAccuracy(identity, correct, None, {16: 0.5, 64: 0.5}))
    analysis = LengthAnalysis(LengthSettings(lengths=(16, 64), sequences=40), tuple(runs))
    axes = panel(length_generalization.draw(analysis), "last 10 tokens")
    seeds = np.array([[runs[number].accuracy(length) for length in (16, 64)] for number in (0, 2, 3)])
    np.testing.assert_allclose(labelled(axes)["lstm, mean of 3 runs"], seeds.mean(axis=0), rtol=SUM_ORDER)
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)
    for place, values in zip((16, 64), seeds.T, strict=True):
        at = band[band[:, 0] == place, 1]
        assert (at.min(), at.max()) == (values.min(), values.max())
