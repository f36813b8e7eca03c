"""Runners and workers that are killed with SIGKILL, or that come two at once, end with the same numbers."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from implicit.runs.folder import RunFolder
from paper_figures.experiments.grid import Experiment, Measurement, Point
from paper_figures.experiments.runner import Work, carry_out, sentences
from paper_figures.experiments.store import Store
from tests.interrupting import kill_at_every_instant
from tests.paper_figures.experiments.tiny import Log, experiment, logged
from tests.processes import forked

TRAINING = 2 * 6
"""Instants at which files of a run change before its weights, which `test_resume` has: before and after each
of 3 files at its start, metrics at the start of the loop, 1 evaluation and the weights."""
RECORDS = 2 * 3
"""Instants after that: for each of the hash of the weights and the records of training and accuracy."""

LONG = {"steps": 100, "evaluate_every": 20, "checkpoint_every": 20}


def start(made: Experiment, store: Store, jobs: int) -> BaseProcess:
    return forked(partial(carry_out, made, store, jobs=jobs))


def wait_until(condition: Callable[[], Any], pause: float = 0.1) -> Any:
    """Return what the condition is as soon as it is true; to look at processes takes milliseconds."""
    give_up = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < give_up
        time.sleep(pause)
    return found


def contents(store: Path) -> dict[str, Any]:
    """Return the content of a store without times: bytes of the weights, metrics and measurements."""
    found: dict[str, Any] = {}
    for path in sorted(store.glob("*/*/*")):
        name = str(path.relative_to(store))
        if path.name == "model.safetensors":
            found[name] = path.read_bytes()
        elif path.name == "metrics.jsonl":
            found[name] = [{**json.loads(line), "seconds": 0} for line in path.read_text().splitlines()]
        elif path.suffix == ".json":
            found[name] = {**json.loads(path.read_text()), "seconds": 0, "date": "", "metrics.jsonl": ""}
        elif path.name not in ("lock", "implicit-ssm.lock"):
            found[name] = "left over"
    return found


def worker_on(store: Store, point: Point, runner: BaseProcess) -> psutil.Process | None:
    """The process that holds the lock of a point, of a runner and those that it started."""
    lock = str(store.file(point, None).parent / "lock")
    process = psutil.Process(runner.pid)
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            if lock in [file.path for file in one.open_files()] and Work(point, (), store).taken:
                return one
    return None


def test_killed_at_every_instant(tmp_path: Path) -> None:
    work = lambda folder: carry_out(experiment(1, steps=2), Store(folder))  # noqa: E731
    instants = kill_at_every_instant(tmp_path, work, TRAINING + 1)
    assert instants == TRAINING + RECORDS
    expected = contents(tmp_path / "uninterrupted")
    assert "left over" not in expected.values()
    for kill_at in range(TRAINING + 1, instants + 1):
        assert contents(tmp_path / str(kill_at)) == expected


def test_a_process_and_then_the_runner_are_killed(tmp_path: Path) -> None:
    """A process dies in training, then the runner; the other process ends its run; a new runner goes on."""
    store, made = Store(tmp_path / "store"), experiment(2, **LONG)
    points, measurements = made.points, made.measurements
    runner = start(made, store, jobs=2)

    def stopped_in_training() -> tuple[Point, psutil.Process] | None:
        """Stop a process between a checkpoint and the end of its run, if there is one."""
        for point in points:
            folder = RunFolder(store.run_folder(point))
            if folder.checkpoint_file.is_file() and (worker := worker_on(store, point, runner)) is not None:
                worker.suspend()
                if not folder.finished:
                    return point, worker
                worker.resume()  # it was quicker
        return None

    killed, worker = wait_until(stopped_in_training, pause=0.005)
    worker.kill()
    assert not store.ended(killed, measurements)
    # The other runs are done, and this one is left alone.
    wait_until(lambda: sum(store.ended(point, measurements) for point in points) >= 1)
    others = [one for point in points if (one := worker_on(store, point, runner)) is not None]
    runner.kill()
    runner.join()
    psutil.wait_procs(others, timeout=60)
    assert not store.ended(killed, measurements)
    outcomes = carry_out(made, store)
    assert all(outcome.complete and outcome.failure is None for outcome in outcomes)
    carry_out(made, Store(tmp_path / "uninterrupted"))
    found = {name: v for name, v in contents(store.path).items() if not name.startswith("logs")}
    assert found == contents(tmp_path / "uninterrupted")


def test_two_runners_at_once_do_each_point_once(tmp_path: Path) -> None:
    measurement = Measurement("logged", logged, Log(path=str(tmp_path / "log"), seconds=0.2))
    store, made = Store(tmp_path / "store"), experiment(4, measurement)
    other = start(made, store, jobs=1)
    wait_until(lambda: any(worker_on(store, point, other) for point in made.points))
    outcomes = carry_out(made, store)
    other.join()
    assert other.exitcode == 0
    assert all(outcome.complete for outcome in outcomes)
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(name for _, name in lines) == sorted(point.identifier for point in made.points)
    assert {process for process, _ in lines} == {str(os.getpid()), str(other.pid)}


def test_a_run_whose_process_died_is_told_and_an_interrupt_ends_the_processes(tmp_path: Path) -> None:
    store, made = Store(tmp_path / "store"), experiment(1, **LONG)
    runner = start(made, store, jobs=2)
    worker = wait_until(lambda: worker_on(store, made.points[0], runner))
    os.kill(runner.pid or 0, signal.SIGINT)
    runner.join()
    assert runner.exitcode == 1
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running()
    (sentence,) = sentences(store.outcomes(made), store)
    assert sentence.startswith("1 of 1 runs did not end: their process was ended from outside (for logs see ")
