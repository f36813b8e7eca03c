"""Carry out an experiment: skip what is there, do the rest with some workers, and say what came of it."""

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from filelock import FileLock

from analysis.framework.output import check_writable
from implicit.training.train import available_device
from paper_figures.experiments.executors import Executor, Job
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome, outcomes_of
from paper_figures.experiments.progress import shown
from paper_figures.experiments.records import Store
from paper_figures.experiments.work import FAULT, POLL_SECONDS, RUNNER_LOCK, Worker, claimed

_CANCEL_SECONDS = 5.0


@dataclass(frozen=True)
class Report:
    """What came of an experiment.

    Attributes:
        outcomes: one per point, in the order of the grid.
        logs: of the workers that ended before their work did; None if there are none.
        fault: what a worker said that could not go on; None if none did.

    Example:
        >>> Report([]).sentences()
        []
    """

    outcomes: list[Outcome]
    logs: Path | None = None
    fault: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every run is done or failed."""
        return all(outcome.complete for outcome in self.outcomes)

    def sentences(self) -> list[str]:
        """Return what a user has to know: each failed run with its reason, and how many did not end."""
        said = [
            f"run {outcome.point.name} failed ({outcome.failure}); it stays in the results as failed, and "
            "--retry-failed tries it again"
            for outcome in self.outcomes
            if outcome.failure is not None
        ]
        unfinished = sum(not outcome.complete for outcome in self.outcomes)
        if unfinished:
            why = self.fault or "their process was ended from outside"
            where = f" (logs in {self.logs})" if self.logs is not None else ""
            said.append(
                f"{unfinished} of {len(self.outcomes)} runs did not end: {why}{where}; run the same command "
                "again to go on"
            )
        return said


def carry_out(
    experiment: Experiment,
    store: Store,
    executor: Executor | None = None,
    *,
    retry_failed: bool = False,
    threads: int = 1,
    device: str = "cpu",
) -> Report:
    """Train and measure what is missing, and return what came of every point.

    Killed at any moment and called again, it goes on where it was, with the same numbers in the end. Two at
    once share the work.

    Args:
        experiment: what to do.
        store: where runs and records are, and go.
        executor: where to work; in this process if None.
        retry_failed: whether to try what failed before again, from the beginning.
        threads: of torch, in each worker.
        device: where each worker trains and measures, such as ``"cuda"``.

    Raises:
        InputError: for a bad setting of any point, data or a device that are not there, or a store that
            cannot be written; nothing is begun then.
        OSError: if the store cannot be written on the way, with one worker in this process.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from paper_figures.experiments.grid import Grid, Measurement
        >>> settings = {"task": "parity", "model": "lstm", "d_model": 4, "steps": 2, "warmup_steps": 1}
        >>> steps = Measurement("steps", lambda run, settings: run.metrics[-1]["step"])
        >>> grid = Experiment("grid", (Grid({"seed": [0, 1]}, settings),), (steps,))
        >>> with TemporaryDirectory() as folder:
        ...     report = carry_out(grid, Store(Path(folder)))
        >>> [outcome.values for outcome in report.outcomes]
        [{'steps': 2}, {'steps': 2}]
    """
    executor = executor or Executor()
    points = experiment.points  # checks their settings
    check_writable(store.path, "experiments")
    executor.check()
    if executor.cluster == "local":
        available_device(device)
    if retry_failed or not all(store.ended(point, experiment.measurements) for point in points):
        experiment.check_data()
    runner = uuid4().hex
    if retry_failed:
        forget_failures(experiment, store, runner)
    worker = Worker(experiment, store.path, runner, threads, device)
    nothing_left = all(store.ended(point, experiment.measurements) for point in points)
    if executor.in_process or nothing_left:
        with shown(experiment, store, workers=1):
            worker()
        return Report(outcomes_of(experiment, store))
    return _with_jobs(worker, store, executor, store.path.absolute() / "logs" / runner)


def _with_jobs(worker: Worker, store: Store, executor: Executor, logs: Path) -> Report:
    """Start workers elsewhere and wait until all of them ended."""
    logs.mkdir(parents=True)
    watched = Worker(
        worker.experiment,
        store.path.absolute(),
        worker.runner,
        worker.threads,
        worker.device,
        logs,
        ends_with_runner=executor.cluster == "local",
    )
    with ExitStack() as stack:
        stack.enter_context(FileLock(logs / RUNNER_LOCK))
        stack.enter_context(shown(worker.experiment, store, executor.jobs))
        jobs = executor.start(watched, logs)
        try:
            while not all(job.done() for job in jobs):
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            _cancel(jobs)
            raise
    outcomes = outcomes_of(worker.experiment, store)
    fault = (logs / FAULT).read_text() if (logs / FAULT).is_file() else None
    report = Report(outcomes, logs, fault)
    if report.complete and executor.cluster == "local":
        shutil.rmtree(logs, ignore_errors=True)
    return report


def _cancel(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.cancel()
    give_up = time.monotonic() + _CANCEL_SECONDS
    while time.monotonic() < give_up and not all(job.done() for job in jobs):
        time.sleep(POLL_SECONDS)


def forget_failures(experiment: Experiment, store: Store, runner: str) -> None:
    """Remove the records of what failed, and the runs whose training failed, so that they are done again.

    Example:
        >>> forget_failures(Experiment("nothing", (), ()), Store(Path("nowhere")), "me")
    """
    for outcome in outcomes_of(experiment, store):
        if outcome.failure is None:
            continue
        with claimed(store, outcome.point, runner) as free:
            if not free:
                continue  # somebody does it already
            for measurement in (None, *experiment.measurements):
                record = store.read(outcome.point, measurement)
                if record is not None and record.status == "failed":
                    store.file(outcome.point, measurement).unlink()
                    if measurement is None:
                        shutil.rmtree(store.run_folder(outcome.point), ignore_errors=True)
