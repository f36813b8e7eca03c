"""Runners and workers that are killed with SIGKILL, or that come two at once, end with the same numbers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from implicit.runs.folder import RunFolder
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from tests.paper_figures.experiments.tiny import ROOT, Log, experiment, logged

KILL_AT_EVERY_INSTANT = """
import functools, sys
from pathlib import Path
from paper_figures.experiments import records
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from tests.interrupting import kill_at_every_instant
from tests.paper_figures.experiments.tiny import experiment

records.describe_environment = functools.cache(records.describe_environment)  # asks git each time
work = lambda store: carry_out(experiment(1, steps=2), Store(store))
print(kill_at_every_instant(Path(sys.argv[1]), work))
"""

RUN = """
import sys
from pathlib import Path
from paper_figures.experiments.executors import Executor
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from tests.paper_figures.experiments import test_interruptions

made = getattr(test_interruptions, sys.argv[1])(Path(sys.argv[2]))
carry_out(made, Store(Path(sys.argv[3])), Executor(jobs=int(sys.argv[4])))
"""

LONG = {"steps": 100, "evaluate_every": 20, "checkpoint_every": 20}


def long_trainings(folder: Path) -> Experiment:
    return experiment(4, **LONG)


def slow_measurements(folder: Path) -> Experiment:
    return experiment(6, Measurement("logged", logged, Log(path=str(folder / "log"), seconds=0.2)))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(torch.get_num_threads())}


def start(made: str, folder: Path, store: Path, jobs: int) -> subprocess.Popen[bytes]:
    arguments = [made, str(folder), str(store), str(jobs)]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments], env=environment(), stderr=subprocess.DEVNULL
    )


def wait_until(condition: Callable[[], Any]) -> Any:
    """Return what the condition is as soon as it is true."""
    give_up = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < give_up
        time.sleep(0.005)
    return found


def contents(store: Path) -> dict[str, Any]:
    """What a store holds but for times: the bytes of the weights, the metrics and what was measured."""
    found: dict[str, Any] = {}
    for path in sorted(store.glob("*/*/*")):
        name = str(path.relative_to(store))
        if path.name == "model.safetensors":
            found[name] = path.read_bytes()
        elif path.name == "metrics.jsonl":
            found[name] = [{**json.loads(line), "seconds": 0} for line in path.read_text().splitlines()]
        elif path.suffix == ".json":
            found[name] = {**json.loads(path.read_text()), "seconds": 0, "date": ""}
        elif path.name != "lock":
            found[name] = "left over"
    return found


def taken_by(store: Store, point: Point) -> int | None:
    """The process that works on a point, or died on it."""
    try:
        return int(store.taken_file(point).read_text().split()[2])
    except FileNotFoundError:
        return None


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_at_every_instant(tmp_path: Path) -> None:
    driver = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_INSTANT, str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert driver.returncode == 0, driver.stderr
    instants = int(driver.stdout)
    # Three (file, replace, folder) for each of: that the point is taken, 3 files of the run at its start,
    # metrics at the start of the loop, 1 evaluation, the weights and their hash, the records of training and
    # accuracy.
    assert instants == 3 * 10
    expected = contents(tmp_path / "uninterrupted")
    assert "left over" not in expected.values()
    for kill_at in range(1, instants + 1):
        assert contents(tmp_path / str(kill_at)) == expected


def test_a_worker_and_then_the_runner_are_killed(tmp_path: Path) -> None:
    """A worker dies in mid-training, then the runner; the other worker ends as well; a new runner goes on."""
    store, points = Store(tmp_path / "store"), long_trainings(tmp_path).points

    def stopped_in_training() -> tuple[Point, int] | None:
        """Stop a process between a checkpoint and the end of its run, if there is one."""
        for point in points:
            process = taken_by(store, point)
            folder = RunFolder(store.run_folder(point))
            if process is not None and folder.checkpoint_file.is_file():
                os.kill(process, signal.SIGSTOP)
                if not folder.finished and taken_by(store, point) == process:
                    return point, process
                os.kill(process, signal.SIGCONT)  # it was quicker
        return None

    runner = start("long_trainings", tmp_path, store.path, jobs=2)
    killed, worker = wait_until(stopped_in_training)
    os.kill(worker, signal.SIGKILL)
    measurements = long_trainings(tmp_path).measurements
    assert not store.ended(killed, measurements)
    # The other worker takes the next points, and leaves this one alone.
    wait_until(lambda: any(store.ended(point, measurements) for point in points))
    runner.kill()
    runner.wait()
    others = {process for point in points if (process := taken_by(store, point)) not in (None, worker)}
    wait_until(lambda: not any(alive(process) for process in others if process is not None))
    assert not store.ended(killed, measurements)
    report = carry_out(long_trainings(tmp_path), store)
    assert report.complete
    assert report.sentences() == []
    carry_out(long_trainings(tmp_path), Store(tmp_path / "uninterrupted"))
    found = {name: v for name, v in contents(store.path).items() if not name.startswith("logs")}
    assert found == contents(tmp_path / "uninterrupted")


def test_two_runners_at_once_do_each_point_once(tmp_path: Path) -> None:
    store, made = Store(tmp_path / "store"), slow_measurements(tmp_path)
    with start("slow_measurements", tmp_path, store.path, jobs=1) as other:
        wait_until(lambda: any(taken_by(store, point) for point in made.points))
        report = carry_out(made, store)
        assert other.wait() == 0
    assert report.complete
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(name for _, name in lines) == sorted(point.identifier for point in made.points)
    assert {process for process, _ in lines} == {str(os.getpid()), str(other.pid)}
