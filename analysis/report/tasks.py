"""The analyses of a report as tasks, which run in two processes and leave their results in a folder."""

import contextlib
import io
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from rich.console import Console

from analysis.framework.analysis import Comparison
from analysis.framework.output import run_name
from analysis.framework.settings import AnalysisSettings, fitted, settings_from
from analysis.questions import question_named, reported_questions, section_of
from automata.processes import spawned_workers
from implicit.runs.loading import Run, load_run

PROCESSES = 2  # tasks at a time, one thread each: the models are too small for more threads to help
RESULTS = "analysis"  # the folder below that of the report which holds the results of the analyses


class ReportSettings(AnalysisSettings):
    """How much is looked at; the defaults take about two minutes of one core for the models of the demo.

    Which of them an analysis follows stands in its `ReportSection`.
    """

    seed: NonNegativeInt = Field(default=0, description="seed of all test sequences and random starts")
    states: PositiveInt = Field(default=64, description="states at which Theorem 1 is checked")
    states_length: PositiveInt = Field(default=64, description="length of the sequences that visit them")
    lengths: tuple[PositiveInt, ...] = Field(
        default=(32, 64, 128, 256), min_length=1, description="lengths at which accuracy is measured"
    )
    sequences: PositiveInt = Field(default=256, description="sequences for the accuracy")
    agreement_sequences: PositiveInt = Field(
        default=32, description="sequences on which the two modes are compared"
    )
    convergence_sequences: PositiveInt = Field(
        default=4, description="sequences whose iterations are followed"
    )
    mode_length: PositiveInt = Field(
        default=256, description="length of the sequences for modes and iterations"
    )
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations in both of these")


@dataclass(frozen=True)
class Task:
    """One analysis of one run, or of all runs together, to be run in any process."""

    analysis: str  # its name
    runs: tuple[str, ...]  # the run folders or names
    folder: Path  # where the results go
    settings: ReportSettings  # of the report

    @property
    def label(self) -> str:
        """The task in words."""
        return f"{self.analysis} of {', '.join(Path(run).name for run in self.runs)}"

    def perform(self) -> float:
        """Run the analysis, write its results, and return the seconds that it took."""
        began = time.monotonic()
        analysis = question_named(self.analysis)
        followed = section_of(analysis).settings
        # The command has loaded them before: code that they name was allowed.
        runs = [load_run(run, allow_code=True) for run in self.runs]
        shared = fitted(self.settings, runs)
        chosen = {own: getattr(shared, name) for own, name in followed.items()}
        settings = analysis.fitted(settings_from(analysis.settings, chosen), runs)
        analysis.answer(runs, settings, [self.folder])
        return time.monotonic() - began


def tasks_of(run: Run, folder: Path, settings: ReportSettings) -> list[Task]:
    """Return the tasks of one run, the longest first."""
    asked = [
        analysis
        for analysis in reported_questions()
        if not isinstance(analysis, Comparison) and analysis.needs.met_by(run.model)
    ]
    asked.sort(key=lambda analysis: -section_of(analysis).priority)
    place = folder / RESULTS / run_name(run)
    return [Task(analysis.name, (str(run.path),), place, settings) for analysis in asked]


def comparison_tasks(runs: Sequence[Run], folder: Path, settings: ReportSettings) -> list[Task]:
    """Return the tasks of all runs together; a comparison leaves out the runs that it cannot take."""
    tasks = []
    for analysis in reported_questions():
        paths = tuple(str(run.path) for run in runs if analysis.needs.met_by(run.model))
        if isinstance(analysis, Comparison) and paths:
            tasks.append(Task(analysis.name, paths, folder / RESULTS, settings))
    return tasks


@contextlib.contextmanager
def two_processes() -> Iterator[Executor]:
    """Offer processes that run tasks with one thread each; on an error they drop what is waiting."""
    pool = spawned_workers(PROCESSES, torch.set_num_threads, (1,))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def perform_all(pool: Executor, tasks: Sequence[Task], console: Console) -> dict[str, float]:
    """Run tasks in processes, say when each is done, and return their seconds by label."""
    futures = {pool.submit(_perform_quietly, task): task.label for task in tasks}
    seconds = {}
    for future in as_completed(futures):
        taken, errors = future.result()
        seconds[futures[future]] = taken
        console.print(f"  {taken:6.1f} s  {futures[future]}", highlight=False)
        if errors.strip():
            console.print(errors.strip(), style="yellow", markup=False)
    return seconds


def _perform_quietly(task: Task) -> tuple[float, str]:
    """Run a task without its progress bars, which would mix with those of another process."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        seconds = task.perform()
    return seconds, errors.getvalue()
