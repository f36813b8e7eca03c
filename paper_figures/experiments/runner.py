"""Carry out an experiment: skip what is there, do the rest here, in processes or on SLURM.

Processes and jobs are those of submitit, one for each run. The holder of a point's lock does it, and all
results go through the store, so that any number of callers can share one.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout
from tqdm import tqdm

from analysis.framework.output import check_writable, json_ready
from automata.errors import InputError, unknown_name
from implicit.threads import threads_taken
from implicit.training.train import available_device
from paper_figures.experiments.grid import Experiment, Measurement, Point
from paper_figures.experiments.store import Outcome, Store

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

CLUSTERS = {"local": "processes on this machine", "slurm": "jobs of a SLURM cluster, submitted from here"}
POLL_SECONDS = 0.2
_NUMBERS = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node", "nodes")
"""Parameters that submitit knows on every cluster; all others are those of SLURM, which takes texts."""
_DEFAULT_MINUTES = {"local": 365 * 24 * 60, "slurm": 24 * 60}


def carry_out(
    experiment: Experiment,
    store: Store,
    *,
    jobs: int = 1,
    cluster: str = "local",
    slurm: Sequence[str] = (),
    retry_failed: bool = False,
    device: str = "cpu",
) -> list[Outcome]:
    """Train and measure what is missing, and return what came of every point.

    Killed at any moment and called again, it goes on where it was, with the same numbers in the end. Two at
    once share the work. A run that its process dies of is left to the next call. A single job on this machine
    is done in this process, without submitit; ``slurm`` has parameters such as ``partition=cpu``. On another
    device the weights are the same only to rounding.

    Raises:
        InputError: for a bad argument or setting of any point, data or a device that are not there, or a
            store that cannot be written; nothing is begun then.
        OSError: if the store cannot be written on the way, by this process.
    """
    store = Store(store.path.absolute())
    parameters = parse_parameters(slurm)
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; give at least 1")
    if cluster not in CLUSTERS:
        raise unknown_name("cluster", cluster, CLUSTERS)
    if parameters and cluster != "slurm":
        raise InputError(f"slurm is {slurm[0]}, but cluster is {cluster}; give --cluster slurm")
    works = [Work(point, experiment.measurements, store, device) for point in experiment.points]
    check_writable(store.path, "experiments")
    if cluster == "local":
        available_device(device)
    if not retry_failed and all(work.ended for work in works):
        return store.outcomes(experiment)
    experiment.check_data()
    submitit = None
    if jobs > 1 or cluster != "local":
        submitit = _submitit(store.logs, cluster, {**parameters, "array_parallelism": jobs})
    if retry_failed:
        for work in works:
            work.forget_failures()
    _do(experiment.name, works, jobs, submitit, batch=cluster == "slurm")
    return store.outcomes(experiment)


def _do(name: str, works: Sequence["Work"], jobs: int, submitit: Any, *, batch: bool) -> None:
    """Do all work that nobody else does, in this process without a submitit, and wait until all ended."""
    left = waiting = [work for work in works if not work.ended]
    running: list[Any] = []
    if batch:
        with submitit.batch():  # one array of jobs
            running, waiting = [submitit.submit(work) for work in left], []
    ended = before = len(works) - len(left)
    began = time.monotonic()
    # a bar with the time left; where there is no terminal, a line whenever runs ended
    bar = tqdm(total=len(works), initial=ended, desc=name, unit="run", leave=False, disable=None)
    try:
        while waiting or running:
            running = [job for job in running if not job.done()]
            waiting = [work for work in waiting if not work.ended]
            free = next((work for work in waiting if not work.taken), None)
            if free is None or len(running) >= jobs:
                time.sleep(POLL_SECONDS)
            else:
                waiting.remove(free)
                if submitit is None:
                    free()
                else:
                    running.append(submitit.submit(free))
            left = [work for work in left if not work.ended]
            new, ended = len(works) - len(left) - ended, len(works) - len(left)
            bar.update(new)
            if new and bar.disable:
                form = "{desc}{n_fmt} of {total_fmt} runs ended, {remaining} left"
                progress = (ended, len(works), time.monotonic() - began)
                line = tqdm.format_meter(*progress, prefix=f"{name}: ", initial=before, bar_format=form)
                print(line, file=sys.stderr)
    except KeyboardInterrupt:
        for job in running:
            job.cancel()
        raise
    finally:
        bar.close()


@dataclass(frozen=True)
class Work:
    """One run, to be trained, measured and stored; submitit can take it to another process."""

    point: Point
    measurements: tuple[Measurement, ...]
    store: Store
    device: str = "cpu"

    @property
    def ended(self) -> bool:
        """Return whether nothing is left to do."""
        return self.store.ended(self.point, self.measurements)

    @property
    def taken(self) -> bool:
        """Return whether somebody does it now."""
        try:
            with self.store.lock(self.point).acquire(timeout=0):
                return False
        except Timeout:
            return True

    def __call__(self) -> None:
        """Do what is left as soon as nobody else does it, with one thread, on which the weights depend."""
        available_device(self.device)
        with threads_taken(1), self.store.lock(self.point):
            if not self.ended:
                self._train_and_measure()

    def checkpoint(self) -> "DelayedSubmission":
        """Tell submitit to submit the same when SLURM ends the job: what is done lies on disk."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def forget_failures(self) -> None:
        """Remove what failed, a run whose training failed among it, unless somebody is at it."""
        with contextlib.suppress(Timeout), self.store.lock(self.point).acquire(timeout=0):
            for measurement in (None, *self.measurements):
                record = self.store.read(self.point, measurement)
                if record is not None and record["status"] == "failed":
                    self.store.file(self.point, measurement).unlink()
                    if measurement is None:
                        shutil.rmtree(self.store.run_folder(self.point), ignore_errors=True)

    def _train_and_measure(self) -> None:
        """Store how the training and every measurement ended; an exception is stored as its failure."""
        point, store, began = self.point, self.store, time.monotonic()
        try:
            run = point.train(store.run_folder(point), self.device)
        except Exception as error:
            _raise_if_outside(error)
            store.write(point, None, None, time.monotonic() - began, error=error)
            return
        identity = point.identity(run)
        run.model.to(self.device)
        training = store.read(point, None)
        if training is None or training["run"] != json_ready(identity.__dict__):
            store.write(point, None, identity, point.seconds(run))
        for measurement in self.measurements:
            if store.read(point, measurement) is not None:
                continue
            began, value, failure = time.monotonic(), None, None
            try:
                value = json_ready(measurement.measure(run, measurement.settings))
            except Exception as error:
                _raise_if_outside(error)
                failure = error
            store.write(point, measurement, identity, time.monotonic() - began, value=value, error=failure)


def _raise_if_outside(error: Exception) -> None:
    """Raise what says nothing about the point: a file system that fails, or the end of a cluster's job."""
    if isinstance(error, OSError) or type(error).__module__.startswith("submitit"):
        raise error


def parse_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of ``KEY=VALUE`` texts, those that submitit counts with as numbers."""
    parameters: dict[str, Any] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key.isidentifier() or not value:
            raise InputError(f"slurm is {text!r}; give KEY=VALUE, such as partition=cpu")
        parameters[key] = value
        if key in _NUMBERS and value.replace(".", "", 1).isdecimal():  # others submitit refuses by their name
            parameters[key] = float(value) if "." in value else int(value)
    return parameters


def _submitit(logs: Path, cluster: str, parameters: Mapping[str, Any]) -> Any:
    """Return the executor of submitit, whose jobs write their logs into a folder."""
    named = {name if name in _NUMBERS else f"slurm_{name}": value for name, value in parameters.items()}
    if not {"timeout_min", "slurm_time"} & set(named):
        named["timeout_min"] = _DEFAULT_MINUTES[cluster]
    try:
        import submitit

        executor = submitit.AutoExecutor(folder=logs, cluster=cluster)
        executor.update_parameters(name="implicit-ssm", **named)
    except ImportError:
        raise InputError(
            "several jobs, or a cluster, take submitit; install it with pip install 'implicit-ssm[cluster]', "
            "or give --jobs 1 --cluster local"
        ) from None
    except RuntimeError:
        raise InputError(
            "cluster is slurm, but this machine has no srun; submit from a machine of the cluster, or give "
            "--cluster local"
        ) from None
    except (NameError, ValueError, TypeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"slurm has a bad parameter: {reason}; give another") from None
    return executor


def sentences(outcomes: Sequence[Outcome], store: Store) -> list[str]:
    """Return what a user has to know: each failed run with its reason, and how many did not end."""
    said = [
        f"run {outcome.point.name} failed ({outcome.failure}); it stays in the results as failed, and "
        "--retry-failed tries it again"
        for outcome in outcomes
        if outcome.failure is not None
    ]
    if unfinished := sum(not outcome.complete for outcome in outcomes):
        said.append(
            f"{unfinished} of {len(outcomes)} runs did not end: their process was ended from outside (for "
            f"logs see {store.logs}); run the same command again to go on"
        )
    return said
