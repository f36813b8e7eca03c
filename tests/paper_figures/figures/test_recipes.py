"""The default recipes over seeds: which runs there are, when an aim is met, what is drawn and said."""

from collections.abc import Sequence

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from implicit.config.recipes import RECIPES, recipe
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import recipes
from paper_figures.figures.figure import Results

POINTS = recipes.EXPERIMENT.points
IDENTITY = RunIdentity("run", "S3", "implicit-mamba2", 10, 32, 0, "0" * 64)


def outcome(point: Point, accuracy: float) -> Outcome:
    loose, tight = ({"512": accuracy, "1024": accuracy - lost} for lost in (0.0, 0.25))
    values = {
        "accuracy": {"accuracy": loose, "share_converged": {}, "updates": 600},
        "accuracy_tight": {"accuracy": tight, "share_converged": {}, "updates": 600},
        "agreement": {"agree": accuracy / 2, "same_answer": 1.0},
    }
    records = {"training": Record.done(point, None, IDENTITY, None, 90.0)}
    for measurement in recipes.EXPERIMENT.measurements:
        value = values[measurement.name]
        records[measurement.name] = Record.done(point, measurement, IDENTITY, value, 2.0)
    return Outcome(point, records, complete=True)


def found_with(task: str, accuracies: Sequence[float]) -> Results:
    """All runs are right, but for those of one task."""
    others = [outcome(point, 1.0) for point in POINTS if point.all_settings["task"] != task]
    its = [point for point in POINTS if point.all_settings["task"] == task]
    return recipes.collect([*others, *map(outcome, its, accuracies)])


def test_every_recipe_is_asked_over_five_seeds_as_it_is() -> None:
    assert set(recipes.AIMS) == set(RECIPES)
    assert len(POINTS) == 5 * len(RECIPES)
    for point in POINTS:
        settings = point.all_settings
        assert set(settings) == {"task", "model", "seed"}
        assert point.config == by_command(settings["task"], point.seed)


def by_command(task: str, seed: int) -> object:
    """The configuration of ``python -m implicit.train --task TASK --model implicit-mamba2 --seed N``."""
    return recipe(task, "implicit-mamba2", seed=seed)


@pytest.mark.parametrize(
    ("task", "accuracies", "word"),
    [
        ("S3", [1.0] * 5, "reproduced"),
        ("S3", [1.0] * 4 + [0.998], "partly"),
        ("S5-generators", [0.99] * 4 + [0.1], "reproduced"),
        ("S5-generators", [0.99] * 3 + [0.989, 1.0], "reproduced"),
        ("S5-generators", [0.99] * 3 + [0.989, 0.1], "partly"),
    ],
)
def test_aims_differ_by_task(task: str, accuracies: list[float], word: str) -> None:
    assert recipes.judge(found_with(task, accuracies)).word == word


def test_a_run_that_failed_counts() -> None:
    point = POINTS[0]
    failed = Record.failed(point, None, ValueError("no luck"), None, 1.0)
    found = recipes.collect([Outcome(point, {"training": failed}, complete=True)])
    assert found["tasks"]["parity"]["failed"] == [0]
    assert "parity 0 of 1 (at least 1 at 512 tokens)" in recipes.judge(found).because


def test_every_run_has_a_mark_in_its_row_and_no_accuracy_is_cut_off() -> None:
    found = found_with("A4", [1.0, 1.0, 0.5, 1.0, 1.0])
    with styled():
        accuracy, agreement, updates, minutes = recipes.draw(found, 6.75).axes
    row = list(recipes.AIMS).index("A4")
    assert np.asarray(accuracy.lines[row].get_xdata()).tolist() == [1.0, 1.0, 0.5, 1.0, 1.0]
    assert accuracy.get_xlim()[0] < 0.5
    assert np.asarray(agreement.lines[row].get_xdata()).tolist() == [0.5, 0.5, 0.25, 0.5, 0.5]
    assert np.asarray(updates.lines[row].get_xdata()).tolist() == [600] * 5
    assert np.asarray(minutes.lines[row].get_xdata()).tolist() == [1.5] * 5


def test_the_verdict_tells_what_holds_at_the_tighter_tolerance() -> None:
    because = recipes.judge(found_with("S5-generators", [1.0] * 5)).because
    assert "at a tolerance of 0.01: parity 5 of 5" in because
    assert because.endswith("at 0.0001: parity 5, S3 5, A4 5, S4 5, A5-generators 0, S5-generators 0")


def test_nothing_is_drawn_of_no_run() -> None:
    with styled():
        assert len(recipes.draw(recipes.collect([]), 3.3).axes) == 4


def test_the_caption_tells_every_accuracy_at_both_tolerances() -> None:
    caption = recipes.caption(found_with("S5-generators", [0.99, 0.98, 0.97, 0.96, 0.95]))
    assert "S5-generators 0.990, 0.980, 0.970, 0.960, 0.950 (0.740, 0.730, 0.720, 0.710, 0.700)" in caption
    assert "S3 1.000, 1.000, 1.000, 1.000, 1.000 (1.000, 1.000, 1.000, 1.000, 1.000)" in caption
