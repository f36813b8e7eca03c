"""One worker of an experiment: it takes the points that nobody works on, one by one, until all ended.

Any number of workers, of one runner or of several, share a store. A point is taken with a lock of the
operating system, which a process that is killed gives back by dying; the next one goes on with the training
from its checkpoint.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock, Timeout

from analysis.framework.output import RunIdentity, json_ready
from implicit.runs.files import write_bytes
from implicit.training.train import available_device
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record, Store

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

POLL_SECONDS = 0.2
RUNNER_LOCK = "runner.lock"
"""Held by a runner in the folder of its logs for as long as it lives."""
FAULT = "fault.txt"
"""Written there by a worker that cannot go on."""


@dataclass(frozen=True)
class Worker:
    """Does the points of an experiment that nobody else does.

    Attributes:
        experiment: what to do.
        store: the folder of runs and records.
        runner: name of the runner that this worker belongs to. What a worker of the same runner died of is
            not tried again by its fellows.
        threads: of torch; the weights depend on their number, and so it does not depend on that of workers.
        device: where to train and to measure, such as ``"cuda"``; the weights are the same only to rounding.
        logs: the folder of the runner's logs, where a worker that cannot go on says why.
        ends_with_runner: whether the worker ends, after the point in hand, when the runner no longer lives;
            on a cluster it does not, and needs nobody to stay logged in.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from paper_figures.experiments.grid import Grid
        >>> settings = {"task": "parity", "model": "lstm", "d_model": 4, "steps": 2, "warmup_steps": 1}
        >>> loss = Measurement("loss", lambda run, settings: run.metrics[-1]["loss"])
        >>> experiment = Experiment("losses", (Grid({"seed": [0, 1]}, settings),), (loss,))
        >>> with TemporaryDirectory() as folder:
        ...     Worker(experiment, Path(folder), runner="me")()
        ...     [Store(Path(folder)).ended(point, (loss,)) for point in experiment.points]
        [True, True]
    """

    experiment: Experiment
    store: Path
    runner: str
    threads: int = 1
    device: str = "cpu"
    logs: Path | None = None
    ends_with_runner: bool = False

    def __call__(self) -> None:
        """Work until every point ended or is given up.

        Raises:
            InputError: for a device that this machine does not have.
            OSError: if the store cannot be written.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            available_device(self.device)
            self._work()
        except Exception as error:
            if self.logs is not None:
                write_bytes(self.logs / FAULT, f"{type(error).__name__}: {error}".encode())
            raise
        finally:
            torch.set_num_threads(threads)

    def checkpoint(self) -> "DelayedSubmission":
        """Tell submitit what to submit when SLURM ends the job: the same, for what is done lies on disk."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _work(self) -> None:
        store = Store(self.store)
        while True:
            waiting, idle = False, True
            for point in self.experiment.points:
                left_over = store.taken_file(point).is_file()  # by who was killed right after the last record
                if store.ended(point, self.experiment.measurements) and not left_over:
                    continue
                if self._runner_died():
                    return
                with claimed(store, point, self.runner) as free:
                    if free is None:
                        waiting = True  # somebody works on it, and may die
                    elif free and not store.ended(point, self.experiment.measurements):
                        do(store, point, self.experiment.measurements, self.device)
                        idle = False
            if idle and not waiting:
                return
            if idle:
                time.sleep(POLL_SECONDS)

    def _runner_died(self) -> bool:
        if self.logs is None or not self.ends_with_runner:
            return False
        try:
            with FileLock(self.logs / RUNNER_LOCK, timeout=0):
                return True
        except Timeout:
            return False


@contextmanager
def claimed(store: Store, point: Point, runner: str) -> Iterator[bool | None]:
    """Take a point for as long as the context lasts, or the process lives.

    Yields:
        True if it is taken now; None if somebody else has it; False if a worker of the same runner died on
        it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 0})
        >>> with TemporaryDirectory() as folder, claimed(Store(Path(folder)), point, "me") as mine:
        ...     mine
        True
    """
    folder = store.record_folder(point)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield None
        return
    taken = store.taken_file(point)
    try:
        if taken.is_file() and taken.read_text().split()[0] == runner:
            yield False
            return
        write_bytes(taken, f"{runner} process {os.getpid()}\n".encode())
        try:
            yield True
        finally:
            taken.unlink(missing_ok=True)
    finally:
        lock.release()


def do(store: Store, point: Point, measurements: tuple[Measurement, ...], device: str = "cpu") -> None:
    """Train what is not trained and measure what is not measured, and store how each ended.

    An exception of the training or of a measurement is stored as its failure; what the file system or the
    user does (OSError, Ctrl-C, the end of a cluster's job) goes on to the caller.
    """
    began = time.monotonic()
    try:
        run = point.train(store.run_folder(point), device)
    except Exception as error:
        _raise_if_outside(error)
        store.write(point, None, Record.failed(point, None, error, None, time.monotonic() - began))
        return
    identity = point.identity(run)
    run.model.to(device)
    training = store.read(point, None)
    if training is None or training.run != json_ready(identity.__dict__):
        store.write(point, None, Record.done(point, None, identity, None, point.seconds(run)))
    for measurement in measurements:
        if store.read(point, measurement) is None:
            store.write(point, measurement, _measured(point, measurement, run, identity))


def _measured(point: Point, measurement: Measurement, run: Any, identity: RunIdentity) -> Record:
    began = time.monotonic()

    def seconds() -> float:
        return time.monotonic() - began

    try:
        value = measurement.measure(run, measurement.settings)
    except Exception as error:
        _raise_if_outside(error)
        return Record.failed(point, measurement, error, identity, seconds())
    return Record.done(point, measurement, identity, json_ready(value), seconds())


def _raise_if_outside(error: Exception) -> None:
    """Raise what says nothing about the point: a file system that fails, or the end of a cluster's job."""
    if isinstance(error, OSError) or type(error).__module__.startswith("submitit"):
        raise error
