"""Runners and workers that are killed with SIGKILL, or that come two at once, end with the same numbers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from implicit.runs.folder import RunFolder
from paper_figures.experiments.grid import Experiment, Measurement, Point
from paper_figures.experiments.runner import Work, carry_out, sentences
from paper_figures.experiments.store import Store
from tests.paper_figures.experiments.tiny import Log, experiment, logged
from tests.processes import environment, run_python

TRAINING = 3 * 6
"""Instants at which files of a run change before its weights, which `test_resume` has: three (file, replace,
folder) for each of 3 files at its start, metrics at the start of the loop, 1 evaluation and the weights."""
RECORDS = 3 * 3
"""Instants after that: for each of the hash of the weights and the records of training and accuracy."""

KILL_AT_EVERY_INSTANT = f"""
import sys
from pathlib import Path
from paper_figures.experiments import store
from paper_figures.experiments.runner import carry_out
from tests.interrupting import kill_at_every_instant
from tests.paper_figures.experiments.tiny import experiment

work = lambda folder: carry_out(experiment(1, steps=2), store.Store(folder))
print(kill_at_every_instant(Path(sys.argv[1]), work, {TRAINING} + 1))
"""

RUN = """
import signal, sys
from pathlib import Path
from paper_figures.experiments.store import Store
from paper_figures.experiments.runner import carry_out
from tests.paper_figures.experiments import test_interruptions

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background processes ignore
made = getattr(test_interruptions, sys.argv[1])(Path(sys.argv[2]))
carry_out(made, Store(Path(sys.argv[3])), jobs=int(sys.argv[4]))
"""

LONG = {"steps": 100, "evaluate_every": 20, "checkpoint_every": 20}


def long_trainings(folder: Path) -> Experiment:
    return experiment(2, **LONG)


def one_training(folder: Path) -> Experiment:
    return experiment(1, **LONG)


def slow_measurements(folder: Path) -> Experiment:
    return experiment(4, Measurement("logged", logged, Log(path=str(folder / "log"), seconds=0.2)))


def start(made: str, folder: Path, store: Path, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, made, str(folder), str(store), str(jobs)]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)


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


def worker_on(store: Store, point: Point, runner: subprocess.Popen[bytes]) -> psutil.Process | None:
    """The process that holds the lock of a point, of a runner and those that it started."""
    lock = str(store.file(point, None).parent / "lock")
    process = psutil.Process(runner.pid)
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            if lock in [file.path for file in one.open_files()] and Work(point, (), store).taken:
                return one
    return None


def test_killed_at_every_instant(tmp_path: Path) -> None:
    instants = int(run_python("-c", KILL_AT_EVERY_INSTANT, tmp_path).stdout)
    assert instants == TRAINING + RECORDS
    expected = contents(tmp_path / "uninterrupted")
    assert "left over" not in expected.values()
    for kill_at in range(TRAINING + 1, instants + 1):
        assert contents(tmp_path / str(kill_at)) == expected


def test_a_process_and_then_the_runner_are_killed(tmp_path: Path) -> None:
    """A process dies in training, then the runner; the other process ends its run; a new runner goes on."""
    store, points = Store(tmp_path / "store"), long_trainings(tmp_path).points
    measurements = long_trainings(tmp_path).measurements
    runner = start("long_trainings", tmp_path, store.path, jobs=2)

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
    runner.wait()
    psutil.wait_procs(others, timeout=60)
    assert not store.ended(killed, measurements)
    outcomes = carry_out(long_trainings(tmp_path), store)
    assert all(outcome.complete and outcome.failure is None for outcome in outcomes)
    carry_out(long_trainings(tmp_path), Store(tmp_path / "uninterrupted"))
    found = {name: v for name, v in contents(store.path).items() if not name.startswith("logs")}
    assert found == contents(tmp_path / "uninterrupted")


def test_two_runners_at_once_do_each_point_once(tmp_path: Path) -> None:
    store, made = Store(tmp_path / "store"), slow_measurements(tmp_path)
    with start("slow_measurements", tmp_path, store.path, jobs=1) as other:
        wait_until(lambda: any(worker_on(store, point, other) for point in made.points))
        outcomes = carry_out(made, store)
        assert other.wait() == 0
    assert all(outcome.complete for outcome in outcomes)
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(name for _, name in lines) == sorted(point.identifier for point in made.points)
    assert {process for process, _ in lines} == {str(os.getpid()), str(other.pid)}


def test_a_run_whose_process_died_is_told_and_an_interrupt_ends_the_processes(tmp_path: Path) -> None:
    store, (point,) = Store(tmp_path / "store"), experiment(1, **LONG).points
    runner = start("one_training", tmp_path, store.path, jobs=2)
    worker = wait_until(lambda: worker_on(store, point, runner))
    runner.send_signal(signal.SIGINT)
    assert runner.wait() != 0
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running()
    (sentence,) = sentences(store.outcomes(experiment(1, **LONG)), store)
    assert sentence.startswith("1 of 1 runs did not end: their process was ended from outside (for logs see ")
