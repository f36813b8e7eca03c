"""Each kind of panel draws its rows."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.palette import GREY, Look
from paper_figures.panels import Drawn, Lines, Marks, Panel
from paper_figures.rows import MeasuredRun, Rows, rows_of, where

VALUES = {
    ("lstm", 0): {"accuracy": {"32": 1.0, "64": 0.5}, "updates": 100},
    ("lstm", 1): {"accuracy": {"32": 0.8, "64": 0.1}, "updates": 300},
    ("gru", 0): {"accuracy": {"32": 0.2, "64": None}, "updates": 1000},
}
ROWS = rows_of(
    [
        MeasuredRun({"model": model, "seed": seed}, found, "done", {})
        for (model, seed), found in VALUES.items()
    ]
    + [MeasuredRun({"model": "gru", "seed": 1}, {}, "failed", {})]
)


def drawn(panel: Panel, rows: Rows = ROWS) -> Axes:
    axes = Figure().subplots()
    panel.draw(axes, rows)
    return axes


def values(line: Any) -> list[float]:
    found: list[float] = np.asarray(line.get_ydata(), dtype=float).tolist()
    return found


def test_lines_are_every_run_and_the_mean_of_a_row_within_its_band() -> None:
    axes = drawn(Lines("accuracy", only="LSTM"))
    assert [values(line) for line in axes.lines] == [[1.0, 0.5], [0.8, 0.1], pytest.approx([0.9, 0.3])]
    edges = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (edges.min(), edges.max()) == (0.1, 1.0)
    assert [axes.lines[0].get_xdata()[place] for place in (0, 1)] == [32, 64]  # type: ignore[index]


def test_a_value_that_is_missing_breaks_the_line_and_a_run_without_values_has_none() -> None:
    axes = drawn(Lines("accuracy", only=where(model="gru"), band=False))
    assert [len(values(line)) for line in axes.lines] == [2]
    assert np.isnan(values(axes.lines[0])[1])
    by_function = Lines(lambda run: None if run.settings["model"] == "gru" else ([1, 2], [3, 4]), band=False)
    assert [values(line) for line in drawn(by_function).lines] == [[3, 4], [3, 4]]


def test_a_mark_per_run_lies_in_the_line_of_its_row_and_within_the_axis() -> None:
    axes = drawn(Marks("updates", chance=(200,)))
    assert [text.get_text() for text in axes.get_yticklabels()] == [row.label for row in ROWS]
    for place, (line, row) in enumerate(zip(axes.lines, ROWS, strict=False)):
        assert np.asarray(line.get_xdata()).tolist() == row.each("updates")
        assert all(abs(height - place) < 0.5 for height in values(line))
    assert axes.get_xlim()[1] > 1000
    assert drawn(Marks("updates", log=True)).get_xscale() == "log"


def test_a_function_draws_where_every_row_has_a_run() -> None:
    def draw(axes: Axes, rows: Rows) -> None:
        axes.plot([len(rows)], [rows.shared.get("x", 7)])

    panel = Drawn(draw, {"title": "own"})
    axes = drawn(panel)
    assert (values(axes.lines[0]), axes.get_title()) == ([7], "own")
    lost = rows_of([MeasuredRun({"model": "lstm", "seed": 0}, {}, "failed", {})])
    assert not drawn(panel, Rows([*ROWS, *lost])).lines


@pytest.mark.parametrize(
    "panel",
    [
        *(Lines("accuracy", xscale=scale, ylim=None) for scale in ("linear", "log2", "log")),
        Lines({"red": ("accuracy", Look("red"))}, yscale="log", ylim=None, chance=(0.5,)),
        Marks("updates", chance=(200,)),
        Marks("updates", log=True),
    ],
    ids=["linear", "log2", "log", "quantities", "marks", "log marks"],
)
def test_rows_without_a_run_are_drawn_as_nothing(panel: Panel) -> None:
    lost = rows_of([MeasuredRun({"model": "lstm", "seed": 0}, {}, "failed", {})])
    axes = drawn(panel, lost)
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    assert not [line for line in axes.lines if values(line) and line.get_color() != GREY]
