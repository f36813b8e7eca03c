"""Time left against sums by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.framework.output import RunIdentity
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.point import Point
from paper_figures.experiments.progress import Observer, Progress, shown
from paper_figures.experiments.records import Record, Store
from tests.paper_figures.experiments.tiny import Length, accuracy

MEASUREMENT = Measurement("accuracy", accuracy, Length())
EXPERIMENT = Experiment(
    "times",
    (
        Grid(
            {"model": ["lstm", "mamba2"], "seed": [0, 1, 2]},
            {"task": "parity", "steps": 1000},
        ),
    ),
    (MEASUREMENT,),
)


def identity(point: Point) -> RunIdentity:
    return RunIdentity(point.identifier, "parity", point.config.model, 1, 32, point.seed, "0" * 64)


def end(store: Store, point: Point, training: float, measuring: float) -> None:
    store.write(point, None, Record.done(point, None, identity(point), None, training))
    store.write(point, MEASUREMENT, Record.done(point, MEASUREMENT, identity(point), 1.0, measuring))


def begin(store: Store, point: Point, **entry: Any) -> None:
    folder = store.run_folder(point)
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps(entry) + "\n")


def test_nothing_is_known_before_something_ran(tmp_path: Path) -> None:
    assert Observer(EXPERIMENT, Store(tmp_path)).look() == Progress((), 0, 6, 0.0, known=False)


def test_what_is_left_takes_what_it_took_before(tmp_path: Path) -> None:
    store, points = Store(tmp_path), EXPERIMENT.points
    observer = Observer(EXPERIMENT, store)
    end(store, points[0], training=100.0, measuring=10.0)
    # Of mamba2 nothing is known yet: it is taken to be as quick as the LSTM.
    assert observer.look().seconds_left == 5 * 110
    # The third LSTM has done 250 of 1000 steps in 30 s: 90 s are left of 120, and the second takes the mean.
    begin(store, points[2], step=250, seconds=30.0)
    assert observer.look().seconds_left == pytest.approx((110 + 10) + (90 + 10) + 3 * (110 + 10))
    end(store, points[3], training=40.0, measuring=4.0)
    progress = observer.look()
    assert progress.seconds_left == pytest.approx((110 + 10) + (90 + 10) + 2 * 44)
    assert progress.ended == (points[0].name, points[3].name)
    # Three at once: as if none stood idle; as many as there are runs at most.
    assert progress.time_left(workers=2) == "about 02:34"
    assert progress.time_left(workers=100) == "about 01:17"


def test_what_nothing_is_known_of_makes_it_more(tmp_path: Path) -> None:
    """A training is half done; how long measuring takes is not known."""
    begin(Store(tmp_path), EXPERIMENT.points[0], step=500, seconds=30.0)
    progress = Observer(EXPERIMENT, Store(tmp_path)).look()
    assert progress.seconds_left == 30 + 5 * 60
    assert progress.sentence(workers=1) == "0 of 6 runs, more than 05:30 left"


def test_failures_are_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    point = EXPERIMENT.points[1]
    store.write(point, None, Record.failed(point, None, ValueError("no"), None, 1.0))
    progress = Observer(EXPERIMENT, store).look()
    assert (progress.ended, progress.failed) == ((point.name,), 1)
    assert progress.sentence(workers=1) == "1 of 6 runs, 1 failed, more than 00:05 left"


def test_without_a_terminal_each_run_that_ended_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    end(store, EXPERIMENT.points[0], 100.0, 10.0)
    with shown(EXPERIMENT, store, workers=1):
        end(store, EXPERIMENT.points[1], 100.0, 10.0)
    name = EXPERIMENT.points[1].name
    assert capsys.readouterr().err == f"times: {name} ended; 2 of 6 runs, about 07:20 left\n"
