"""Jacobians through training: the training is repeated and looked at, what is drawn, and the verdict."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.jacobian.block_structure import FULL_STATE_LIMIT
from analysis.jacobian.measurement import analyse
from automata.errors import InputError
from implicit import recipe
from implicit.runs.loading import Run, initial_model
from implicit.train import train
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import jacobians_in_training as figure
from paper_figures.figures.figure import Results
from paper_figures.stored_results import StoredResults

POINTS = figure.EXPERIMENT.points
IDENTITY = RunIdentity("run", "parity", "implicit-mamba2", 10, 32, 0, "0" * 64)


def entry(step: int, holds: int, accuracy: float) -> dict[str, Any]:
    blocks = dict.fromkeys(
        ["diagonal", "within heads, off the diagonal", "across heads", *("window to state",)], 0.5
    )
    return {
        "step": step,
        "counts": {"holds": holds, "fails": 0, "inconclusive": 8 - holds},
        "off_diagonal_mass": 0.01,
        "nonlinearity": 0.02,
        "spectral_radius": 0.3,
        "blocks": {**blocks, "state to window": 0.0, "window to window": 0.0},
        "accuracy": accuracy,
        "share_converged": 1.0,
    }


def outcome(point: Point, *entries: dict[str, Any]) -> Outcome:
    (measurement,) = figure.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "training_course": Record.done(point, measurement, IDENTITY, list(entries), 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """Two runs with a window, one without; all states hold at the end."""
    return figure.collect(
        [
            outcome(POINTS[0], entry(0, 2, 0.5), entry(250, 8, 1.0)),
            outcome(POINTS[1], entry(0, 3, 0.5), entry(240, 8, 1.0)),
            outcome(POINTS[3], entry(0, 1, 0.5), entry(700, 8, 0.9)),
        ]
    )


def test_models_differ_in_their_window_only() -> None:
    assert [point.config.sizes["d_conv"] for point in POINTS] == [4] * 3 + [1] * 3
    one, other = (point.config.flat() for point in (POINTS[0], POINTS[3]))
    assert {name for name in one if one[name] != other[name]} == {"sizes"}


FULL = figure.FULL.points


def test_at_full_size_the_whole_matrix_holds_the_windows() -> None:
    """By hand: 2 · 256 channels with 4 entries each; a window of 3 tokens, of the channels and 2 · 4."""
    assert [point.config.sizes["d_conv"] for point in FULL] == [4] * 3 + [1] * 3
    one, other = (point.config.flat() for point in (FULL[0], FULL[3]))
    assert {name for name in one if one[name] != other[name]} == {"sizes"}
    state = initial_model(FULL[0].config, FULL[0].config.build_task()).init_state(1)
    assert {name.split(".")[0]: entry.numel() for name, entry in state.items()} == {
        "ssm": 512 * 4,
        "conv": 3 * (512 + 2 * 4),
    }
    assert sum(entry.numel() for entry in state.values()) <= FULL_STATE_LIMIT
    assert FULL[0].config.sizes["d_model"] == 256
    (small,), (large,) = figure.EXPERIMENT.measurements, figure.FULL.measurements
    assert small.trains_again
    assert {**small.settings_json, "steps": large.settings_json["steps"]} == large.settings_json


def test_at_full_size_the_caption_is_of_those_runs() -> None:
    (course,) = figure.FULL.measurements
    outcomes = []
    for point in FULL:
        value = [entry(0, 0, 0.5), entry(16384, 8, 1.0)]
        done = Record.done(point, course, IDENTITY, value, 2.0)
        outcomes.append(Outcome(point, {"training_course": done}, complete=True))
    found = figure.collect(outcomes)
    assert found["settings"]["steps"] == list(figure.FULL_SETTINGS.steps)
    text = figure.caption(found)
    assert "All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 upd" in text
    assert "h has 2,048 entries, that of the paper's cell 131,072, for" in text
    assert "after 16384, 16384, 16384 steps" in text
    assert "by accuracy" not in text
    verdict = figure.judge(found)
    assert verdict.word == "reproduced"
    assert verdict.because.endswith("with the initial weights at 0 of 48")  # training may be what makes it so
    with styled():
        titles = [axes.get_title() for axes in figure.draw(found, 6.75).axes]
    assert titles[:2] == ["with window", "without window"]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = recipe(
        "parity",
        "implicit-mamba2",
        steps=4,
        warmup_steps=1,
        batch_size=4,
        d_model=4,
        head_size=4,
        d_state=2,
    )
    return train(config, tmp_path_factory.mktemp("short") / "run", progress=False)


SMALL = figure.TrainingSettings(steps=(0, 2, 9), states=2, sequences=1, length=4)


def test_training_is_repeated_and_the_end_is_that_of_the_run(short: Run) -> None:
    course = figure.measure(short, SMALL)
    assert [seen["step"] for seen in course] == [0, 2, 4]
    expected = analyse(short, states=2, sequences=1, length=4).theorem1()
    last = course[-1]
    assert last["counts"] == expected["counts"]
    assert last["spectral_radius"] == expected["spectral_radius"]["median"]
    assert course[0]["spectral_radius"] != last["spectral_radius"]


def test_other_weights_than_those_of_the_run_are_refused(short: Run, tmp_path: Path) -> None:
    changed = Run(short.path, short.config, initial_model(short.config, short.task), short.task, [])
    with torch.no_grad():
        changed.model.get_parameter("head.weight").mul_(2)
    with pytest.raises(InputError, match="ended in other weights than those stored"):
        figure.measure(changed, SMALL)


def test_every_run_is_a_line_in_the_column_of_its_model(found: Results) -> None:
    with styled():
        panels = figure.draw(found, 6.75).axes
    share, other = panels[0], panels[1]
    assert (share.get_title(), other.get_title()) == ("with window", "without window")
    accuracies = [
        np.asarray(line.get_ydata()).tolist()
        for line in share.lines
        if line.get_color() == figure.ACCURACY_LOOK.color and len(np.asarray(line.get_ydata())) == 2
    ]
    assert accuracies == [[0.5, 1.0], [0.5, 1.0]]
    held = [
        np.asarray(line.get_ydata()).tolist()
        for line in other.lines
        if line.get_color() == figure.HOLDS_LOOK.color and len(np.asarray(line.get_ydata())) == 2
    ]
    assert held[:1] == [[0.125, 1.0]]


def test_masses_of_h_are_summed_as_squares_and_zeros_break_the_line(found: Results) -> None:
    blocks = found["models"]["1"]["seeds"]["0"][0]["blocks"]
    assert figure._mass(blocks, figure.BLOCKS["h to h"][0]) == pytest.approx(0.75**0.5)
    assert figure._mass(blocks, figure.BLOCKS["h to window"][0]) is None
    assert figure._mass(None, figure.BLOCKS["h to h"][0]) is None


def test_verdicts(found: Results) -> None:
    assert figure.judge(found).word == "reproduced"
    assert "with window 16 of 16, without window 8 of 8" in figure.judge(found).because
    lost = Outcome(
        POINTS[4],
        {"training": Record.failed(POINTS[4], None, ValueError("no luck"), None, 1.0)},
        complete=True,
    )
    right = outcome(POINTS[0], entry(250, 8, 1.0))
    assert figure.judge(figure.collect([right, lost])).word == "partly"
    assert figure.judge(figure.collect([outcome(POINTS[0], entry(250, 0, 1.0))])).word == "not reproduced"


def test_the_stored_results_hold_every_run() -> None:
    models = StoredResults.read("jacobians_in_training").results["models"]
    assert {width: sorted(group["seeds"]) for width, group in models.items()} == {
        "4": ["0", "1", "2"],
        "1": ["0", "1", "2"],
    }
