"""The figure of `analysis.belief` where there is little to draw, or much of it."""

from typing import Any

import pytest

from analysis.belief import analyse
from analysis.belief.drawing import draw
from tests.analysis.belief.models import ExactFilter, observed_task, run_of
from tests.analysis.reading_figures.conftest import runs_with_a_belief
from tests.drawn_figures import WIDTHS, faults


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("which", "chosen"),
    [
        ("exact", {"probe_sequences": 16, "probe_validation": 4}),
        ("transformer", {}),
        ("stored", {"probe": False, "lengths": (64,)}),
        ("stored", {"probe": False, "lengths": (60, 64, 68)}),
        ("stored", {"lengths": tuple(range(20, 100, 8)), "probe_sequences": 16, "probe_validation": 4}),
    ],
    ids=["an exact filter", "a state that grows", "one length", "near lengths", "many lengths"],
)
def test_it_can_be_read(which: str, chosen: dict[str, Any], width: float) -> None:
    task = observed_task()
    runs = {"exact": run_of(ExactFilter(task), task)}
    if which != "exact":
        runs["stored"], *_, runs["transformer"] = runs_with_a_belief()
    found = analyse(runs[which], sequences=4, **chosen)
    assert faults(draw(found, width), width) == []
