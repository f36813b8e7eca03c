"""The runner in this process: what is there is skipped, what fails is kept, what is missing is done."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from implicit.runs.loading import Run, load_run
from implicit.train import train
from implicit.training.evaluation import evaluate
from paper_figures.experiments import work
from paper_figures.experiments.executors import Executor
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import Report, carry_out
from paper_figures.experiments.work import Worker, claimed
from tests.paper_figures.experiments.tiny import LSTM, Length, accuracy, experiment


def no_training(*arguments: Any, **options: Any) -> Run:
    raise AssertionError("trained again")


def modified(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_trains_and_measures_every_point(tmp_path: Path) -> None:
    """Against training and measuring by hand."""
    report = carry_out(experiment(), Store(tmp_path / "new" / "store"))
    assert report.complete
    assert report.sentences() == []
    for seed, outcome in enumerate(report.outcomes):
        by_hand = train(Point({**LSTM, "seed": seed}).config, tmp_path / f"{seed}", progress=False)
        run = load_run(tmp_path / "new" / "store" / "runs" / outcome.point.identifier)
        for name, weights in by_hand.model.state_dict().items():
            assert bool((run.model.state_dict()[name] == weights).all())
        found = evaluate(by_hand.model, by_hand.task, 8, sequences=8)
        assert outcome.values["accuracy"]["accuracy"] == found.accuracy
        np.testing.assert_array_equal(outcome.values["accuracy"]["per_position"], found.per_position)
        assert outcome.records["accuracy"].run == outcome.records["training"].run
        assert outcome.run["seed"] == seed
        assert outcome.run["settings"] == {"task": "parity", "model": "lstm", "seed": seed}


def test_every_run_and_every_measurement_is_one_file(tmp_path: Path) -> None:
    carry_out(experiment(), Store(tmp_path))
    for point in experiment().points:
        names = {path.name for path in (tmp_path / "records" / point.identifier).iterdir()}
        file = experiment().measurements[0].file_name
        assert names - {"lock"} == {"training.json", file}
        content = json.loads((tmp_path / "records" / point.identifier / file).read_text())
        assert content["settings"] == {**LSTM, "seed": point.seed}
        assert content["config"] == point.config.as_json()
        assert content["measurement_settings"] == {"length": 8}
        assert content["environment"]["torch"]
        assert content["environment"]["threads"] == 1
        assert content["status"] == "done"


def test_what_is_there_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = carry_out(experiment(), Store(tmp_path))
    before = modified(tmp_path)
    monkeypatch.setattr("paper_figures.experiments.point.train", no_training)
    assert carry_out(experiment(), Store(tmp_path)) == first
    assert modified(tmp_path) == before


def test_more_seeds_and_measurements_do_what_is_missing(tmp_path: Path) -> None:
    carry_out(experiment(), Store(tmp_path))
    before = modified(tmp_path)
    more = (*experiment().measurements, Measurement("longer", accuracy, Length(length=16)))
    report = carry_out(experiment(3, *more), Store(tmp_path))
    assert [sorted(outcome.values) for outcome in report.outcomes] == [["accuracy", "longer"]] * 3
    kept = {path: time for path, time in modified(tmp_path).items() if path in before}
    locks = {path for path in kept if path.name == "lock"}
    assert {p: t for p, t in kept.items() if p not in locks} == {
        p: t for p, t in before.items() if p not in locks
    }


def test_other_settings_are_measured_anew(tmp_path: Path) -> None:
    carry_out(experiment(), Store(tmp_path))
    other = experiment(2, Measurement("accuracy", accuracy, Length(length=3)))
    report = carry_out(other, Store(tmp_path))
    assert [len(outcome.values["accuracy"]["per_position"]) for outcome in report.outcomes] == [3, 3]


def test_a_run_that_was_removed_and_trains_to_other_weights_is_measured_anew(tmp_path: Path) -> None:
    (point,) = experiment(1).points
    carry_out(experiment(1), Store(tmp_path))
    record = tmp_path / "records" / point.identifier / "training.json"
    content = json.loads(record.read_text())
    content["run"]["weights_sha256"] = "0" * 64  # as if these had been the weights of another machine
    record.write_text(json.dumps(content))
    (outcome,) = carry_out(experiment(1), Store(tmp_path)).outcomes
    assert outcome.values["accuracy"]["accuracy"] >= 0
    assert outcome.records["training"].run == outcome.records["accuracy"].run
    assert outcome.records["training"].run["weights_sha256"] != "0" * 64  # type: ignore[index]


def odd_seeds_fail(run: Run, settings: None) -> int:
    if run.config.seed % 2:
        raise ValueError("odd\n  seed")
    return run.config.seed


def test_a_failed_measurement_is_kept_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = experiment(4, Measurement("even", odd_seeds_fail), Measurement("accuracy", accuracy, Length()))
    report = carry_out(failing, Store(tmp_path))
    assert report.complete
    failures = [outcome.failure for outcome in report.outcomes]
    assert failures == [None, "even: ValueError: odd seed", None, "even: ValueError: odd seed"]
    assert [outcome.run["status"] for outcome in report.outcomes] == ["done", "failed", "done", "failed"]
    assert all("accuracy" in outcome.values for outcome in report.outcomes)
    assert len(report.sentences()) == 2
    assert "seed-1 failed (even: ValueError: odd seed)" in report.sentences()[0]
    before = modified(tmp_path)
    monkeypatch.setattr("paper_figures.experiments.point.train", no_training)
    assert carry_out(failing, Store(tmp_path)) == report  # not tried again
    assert modified(tmp_path) == before


def test_retry_does_what_failed_and_only_that_again(tmp_path: Path) -> None:
    carry_out(experiment(2, Measurement("even", odd_seeds_fail)), Store(tmp_path))
    before = modified(tmp_path)
    mended = experiment(2, Measurement("even", lambda run, settings: run.config.seed))
    assert [o.values for o in carry_out(mended, Store(tmp_path)).outcomes] == [{"even": 0}, {}]
    report = carry_out(mended, Store(tmp_path), retry_failed=True)
    assert [outcome.values for outcome in report.outcomes] == [{"even": 0}, {"even": 1}]
    changed = {path for path, time in modified(tmp_path).items() if before.get(path) != time}
    assert {path.name for path in changed} - {"lock"} == {mended.measurements[0].file_name}


def sizes_that_do_not_divide() -> Experiment:
    """A training that fails: the heads do not divide the width, which only the model itself finds out."""
    settings = {**LSTM, "model": "mamba2", "d_state": 2, "head_size": 4}
    grid = Grid({"d_model": [3, 4], "seed": [0]}, {k: v for k, v in settings.items() if k != "d_model"})
    return Experiment("sizes", (grid,), (Measurement("accuracy", accuracy, Length()),))


def test_a_failed_training_is_kept_as_failed_and_the_others_go_on(tmp_path: Path) -> None:
    report = carry_out(sizes_that_do_not_divide(), Store(tmp_path))
    bad, good = report.outcomes
    assert report.complete
    assert bad.failure is not None
    assert bad.failure.startswith("training: InputError: ")
    assert "head_size" in bad.failure
    assert bad.values == {}
    assert bad.run["status"] == "failed"
    assert good.failure is None
    assert list(good.values) == ["accuracy"]


def test_retry_trains_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a run whose training failed is left when it is tried again."""

    def fail_later(config: Any, out: Path, progress: bool, device: str) -> Run:
        out.mkdir(parents=True)
        (out / "config.json").write_text("{}")
        raise RuntimeError("no memory")

    monkeypatch.setattr("paper_figures.experiments.point.train", fail_later)
    (outcome,) = carry_out(experiment(1), Store(tmp_path)).outcomes
    assert outcome.failure == "training: RuntimeError: no memory"
    monkeypatch.setattr("paper_figures.experiments.point.train", train)
    (outcome,) = carry_out(experiment(1), Store(tmp_path), retry_failed=True).outcomes
    assert outcome.failure is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_what_says_nothing_about_the_point_is_no_failure(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> Run:
        raise error

    monkeypatch.setattr("paper_figures.experiments.point.train", stop)
    with pytest.raises(type(error)):
        carry_out(experiment(1), Store(tmp_path))
    monkeypatch.setattr("paper_figures.experiments.point.train", train)
    assert carry_out(experiment(1), Store(tmp_path)).complete


def test_a_bad_point_anywhere_in_the_grid_begins_nothing(tmp_path: Path) -> None:
    grid = Grid({"learning_rate": [1e-3, -1.0]}, {**LSTM, "seed": 0})
    with pytest.raises(InputError, match="learning_rate is -1"):
        carry_out(Experiment("bad", (grid,), ()), Store(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    with pytest.raises(InputError, match="is not a folder"):
        carry_out(experiment(1), Store(tmp_path / "file" / "store"))


def test_a_point_that_is_taken_is_left_to_who_took_it(tmp_path: Path) -> None:
    store, (point, _) = Store(tmp_path), experiment(2).points
    with claimed(store, point, "one") as mine, claimed(store, point, "other") as theirs:
        assert (mine, theirs) == (True, None)
    with claimed(store, point, "other") as free:
        assert free is True


def test_what_a_worker_died_of_is_left_by_its_fellows_and_done_by_the_next_runner(tmp_path: Path) -> None:
    store, (point, other) = Store(tmp_path), experiment(2).points
    store.record_folder(point).mkdir(parents=True)
    (store.record_folder(point) / "taken").write_text("one process 12345\n")  # and no lock: it died
    Worker(experiment(2), tmp_path, runner="one")()
    assert not store.ended(point, experiment(2).measurements)
    assert store.ended(other, experiment(2).measurements)
    Worker(experiment(2), tmp_path, runner="next")()
    assert store.ended(point, experiment(2).measurements)


class Ended:
    """A job that ended and did nothing."""

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        raise AssertionError("cancelled")


def test_jobs_that_end_before_their_work_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Executor, worker: Worker, logs: Path) -> list[Ended]:
        (logs / work.FAULT).write_text("OSError: no space left")
        return [Ended(), Ended()]

    monkeypatch.setattr(Executor, "start", start)
    report = carry_out(experiment(2), Store(tmp_path), Executor(jobs=2))
    assert not report.complete
    (sentence,) = report.sentences()
    assert sentence.startswith("2 of 2 runs did not end: OSError: no space left (logs in ")
    assert sentence.endswith("run the same command again to go on")


class Endless:
    """A job that goes on until it is cancelled."""

    cancelled = False

    def done(self) -> bool:
        return self.cancelled

    def cancel(self) -> None:
        self.cancelled = True


def test_an_interrupt_ends_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Endless(), Endless()]

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Executor, "start", lambda self, worker, logs: jobs)
    monkeypatch.setattr("time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        carry_out(experiment(2), Store(tmp_path), Executor(jobs=2))
    assert all(job.cancelled for job in jobs)


def test_a_report_of_runs_that_ended_well_says_nothing() -> None:
    assert Report([]).complete
    assert Report([]).sentences() == []
