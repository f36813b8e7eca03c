"""The figure of an agreement says of a model whose modes differ what its tokens say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.agreement import drawing as agreement_drawing
from analysis.agreement.measurement import analyse as measure_agreement
from automata.tasks.registry import make_task
from implicit.config.recipes import recipe
from implicit.runs.loading import Run
from tests.analysis.conftest import Bistable
from tests.drawn_figures import faults, labelled, panel


def bars(axes: Axes) -> dict[str, float]:
    """The height of all bars of a colour, by the text of the legend."""
    legend = axes.get_legend()
    assert legend is not None
    return {
        text.get_text().split(":")[0]: sum(
            bar.get_height()
            for bars in axes.containers
            for bar in bars
            if isinstance(bar, Rectangle) and bar.get_facecolor() == handle.get_facecolor()
        )
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if isinstance(handle, Rectangle)
    }


def areas(axes: Axes) -> dict[str, float]:
    """The areas that are stacked on each other, by the formula of surveyors."""
    found = {}
    for area in axes.collections:
        x, y = np.asarray(area.get_paths()[0].vertices).T
        found[str(area.get_label())] = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    return found


@pytest.fixture(scope="module")
def disagreeing() -> Any:
    """A model with two attracting fixed points for every token, between which the modes differ."""
    run = Run(Path("runs/bistable"), recipe("parity", "implicit-mamba2"), Bistable(), make_task("parity"), [])
    return measure_agreement(run, sequences=16, length=12, examples=4, starts=6, rtol=1e-6)


def test_shares_and_words_of_agreement_are_those_of_the_tokens(disagreeing: Any) -> None:
    found = disagreeing
    assert 0 < found.shares["differ"] < 1
    figure = agreement_drawing.draw(found, 6.75)
    assert faults(figure, 6.75) == []
    histogram = panel(figure, "distance between the modes")
    counted = {"same fixed point": found.agrees, "different fixed points": found.differs}
    counted = {name: mask for name, mask in counted.items() if mask.any()}
    assert bars(histogram) == {name: mask.sum() for name, mask in counted.items()}
    legend = histogram.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    for name, mask in counted.items():
        assert f"{name}: {100 * mask.sum() / mask.size:.2f}%" in words
    by_position = panel(figure, "agreement by position")
    same = np.asarray(by_position.lines[0].get_ydata())
    np.testing.assert_array_equal(labelled(by_position)["same answer"], same)
    np.testing.assert_array_equal(same, found.same_answer.mean(axis=0))
    widths = np.array([0.5, *[1.0] * 10, 0.5])  # of a position; the picture begins and ends at one
    expected = {
        name: float(mask.mean(axis=0) @ widths)
        for name, mask in (
            ("same fixed point", found.agrees),
            ("different ones", found.differs),
            ("not converged", ~found.converged),
        )
    }
    assert areas(by_position) == pytest.approx(expected, abs=1e-9)  # sums in another order
    title = " ".join(figure.get_suptitle().split())
    assert f"same fixed point at {100 * found.agrees.mean():.2f}% of tokens" in title
    assert found.sentence in agreement_drawing.caption(found)
    assert f"different ones at {100 * found.differs.mean():.2f}%" in found.sentence


def test_marks_of_fixed_points_tell_right_from_wrong(disagreeing: Any) -> None:
    axes = panel(agreement_drawing.draw(disagreeing), "fixed points")
    legend = axes.get_legend()
    assert legend is not None
    marker_of = {
        text.get_text(): handle.get_marker()  # type: ignore[union-attr]
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    expected = sorted(
        (place, point.spectral_radius, point.answer == search.label)
        for place, search in enumerate(disagreeing.searches, start=1)
        for point in search.fixed_points
    )
    shown = sorted(
        (
            float(np.asarray(line.get_xdata())[0]),
            float(np.asarray(line.get_ydata())[0]),
            line.get_marker() == marker_of["decodes the right answer"],
        )
        for line in axes.lines[1:]
    )
    assert shown == expected
    assert {right for *_, right in expected} == {True, False}
