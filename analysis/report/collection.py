"""Everything about one run or several, in one report: ``python -m analysis.report RUN… --out FOLDER``.

The analyses run as tasks in two processes and leave their results in ``FOLDER/analysis``; ``report.json`` and
``report.md`` are made from those files.
"""

import contextlib
import io
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from rich.console import Console

from analysis.framework.analysis import Analysis, Comparison
from analysis.framework.output import RunIdentity, check_writable, json_ready, require_different_names
from analysis.framework.report_section import ReportSection
from analysis.framework.settings import settings_from
from analysis.framework.terminal import add_output_flag, add_runs_argument
from analysis.questions import question_named, reported_questions
from analysis.report.markdown import markdown
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.runs.environment import describe_environment
from implicit.runs.files import write_bytes, write_json
from implicit.runs.loading import Run, load_run

PROCESSES = 2
"""Tasks at a time, one thread each: the models are too small for more threads to help."""
RESULTS = "analysis"
"""The folder below that of the report which holds the results of the analyses."""


class ReportSettings(BaseModel):
    """How much is looked at; the defaults take about two minutes of one core for the models of the demo.

    Which of them an analysis follows stands in its `ReportSection`.

    Example:
        >>> ReportSettings().lengths
        (32, 64, 128, 256)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
    """One analysis of one run, or of all runs together, to be run in any process.

    Attributes:
        analysis: its name.
        runs: the run folders or names.
        folder: where the results go.
        settings: of the report.

    Example:
        >>> Task("jacobian", ("runs/parity",), Path("out/analysis/parity"), ReportSettings()).label
        'jacobian of parity'
    """

    analysis: str
    runs: tuple[str, ...]
    folder: Path
    settings: ReportSettings

    @property
    def label(self) -> str:
        """The task in words."""
        return f"{self.analysis} of {', '.join(Path(run).name for run in self.runs)}"

    def perform(self) -> float:
        """Run the analysis, write its results, and return the seconds that it took.

        Raises:
            InputError: for a run that cannot be loaded.
            OSError: if the results cannot be written.
        """
        began = time.monotonic()
        analysis = question_named(self.analysis)
        chosen = {own: getattr(self.settings, shared) for own, shared in _section(analysis).settings.items()}
        settings = settings_from(analysis.settings, chosen)
        analysis.answer([load_run(run) for run in self.runs], settings, [self.folder])
        return time.monotonic() - began


def tasks_of(run: Run, folder: Path, settings: ReportSettings) -> list[Task]:
    """Return the tasks of one run, the longest first.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config, task = recipe("parity", "lstm"), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> [task.label for task in tasks_of(run, Path("out"), ReportSettings())]
        ['jacobian of lstm']
    """
    asked = [
        analysis
        for analysis in reported_questions()
        if not isinstance(analysis, Comparison) and analysis.needs.met_by(run.model)
    ]
    asked.sort(key=lambda analysis: -_section(analysis).priority)
    place = folder / RESULTS / run.path.resolve().name
    return [Task(analysis.name, (str(run.path),), place, settings) for analysis in asked]


def comparison_tasks(runs: Sequence[Run], folder: Path, settings: ReportSettings) -> list[Task]:
    """Return the tasks of all runs together; a comparison leaves out the runs that it cannot take.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> [task.label for task in comparison_tasks([load_run("parity")], Path("out"), ReportSettings())]
        ['length_generalization of parity']
    """
    tasks = []
    for analysis in reported_questions():
        paths = tuple(str(run.path) for run in runs if analysis.needs.met_by(run.model))
        if isinstance(analysis, Comparison) and paths:
            tasks.append(Task(analysis.name, paths, folder / RESULTS, settings))
    return tasks


def _section(analysis: Analysis[Any, Any]) -> ReportSection:
    assert analysis.section is not None
    return analysis.section


def perform_quietly(task: Task) -> tuple[float, str]:
    """Run a task without its progress bars, which would mix with those of another process.

    Returns:
        The seconds, and anything else that was written to standard error.

    Example:
        >>> class Nothing(Task):
        ...     def __init__(self) -> None: ...
        ...     def perform(self) -> float:
        ...         return 0.5
        >>> perform_quietly(Nothing())
        (0.5, '')
    """
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        seconds = task.perform()
    return seconds, errors.getvalue()


@contextlib.contextmanager
def two_processes() -> Iterator[Executor]:
    """Offer processes that run tasks with one thread each; on an error they drop what is waiting.

    Example:
        >>> with two_processes() as pool:
        ...     pool.submit(abs, -2).result()
        2
    """
    pool = ProcessPoolExecutor(
        PROCESSES, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def finish_tasks(futures: dict[Future[tuple[float, str]], str], console: Console) -> dict[str, float]:
    """Wait for tasks, say when each is done, and return their seconds by label.

    Example:
        >>> done: Future[tuple[float, str]] = Future()
        >>> done.set_result((1.5, ""))
        >>> finish_tasks({done: "training"}, Console())
             1.5 s  training
        {'training': 1.5}
    """
    seconds = {}
    for future in as_completed(futures):
        taken, errors = future.result()
        seconds[futures[future]] = taken
        console.print(f"  {taken:6.1f} s  {futures[future]}", highlight=False)
        if errors.strip():
            console.print(errors.strip(), style="yellow", markup=False)
    return seconds


def collect(
    runs: Sequence[Run],
    folder: Path,
    settings: ReportSettings,
    seconds: float,
    parts: dict[str, float],
    command: str,
) -> dict[str, Any]:
    """Return the content of ``report.json``, from the results that the tasks left in the folder.

    Args:
        runs: the runs, in the order in which they are shown.
        folder: of the report.
        settings: that were given.
        seconds: that everything took.
        parts: seconds by part.
        command: that makes the report again.

    Example:
        >>> report = collect([], Path("out"), ReportSettings(), seconds=1.0, parts={}, command="demo")
        >>> report["models"], report["command"]
        ({}, 'demo')
    """
    models = {}
    for run in runs:
        identity = RunIdentity.of(run)
        entry: dict[str, Any] = {
            "parameters": identity.parameters,
            "model": identity.model,
            "task": identity.task,
            "training_length": identity.training_length,
            "training_steps": run.metrics[-1]["step"] if run.metrics else None,
            "training_seconds": run.metrics[-1].get("seconds") if run.metrics else None,
            "seed": identity.seed,
            "weights_sha256": identity.weights_sha256,
        }
        for analysis in reported_questions():
            if analysis.needs.met_by(run.model):
                result = analysis.stored_result(folder / RESULTS, identity.name)
                entry |= _section(analysis).content(run, result)
        models[identity.name] = entry
    return {
        "seconds": seconds,
        "parts": parts,
        "command": command,
        "settings": settings.model_dump(),
        "environment": describe_environment(),
        "models": models,
    }


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write ``report.json`` and ``report.md``.

    Raises:
        OSError: if they cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> spread = {"min": 0.1, "median": 0.2, "max": 0.3}
        >>> theorem = {"sentence": "Theorem 1 fails", "reasons": {"fails: linear": 64}, "verdict": "fails"}
        >>> from theory.theorem1.report import QUANTITIES
        >>> model = {
        ...     "model": "mamba2", "task": "parity", "parameters": 9, "training_length": 32,
        ...     "training_steps": 5, "training_seconds": 1.5, "seed": 0, "weights_sha256": "ab" * 32,
        ...     "accuracy": {"32": 0.5}, "accuracy_interval": {"32": [0.4, 0.6]}, "chance": 0.5,
        ...     "block_masses": None,
        ...     "theorem1": {**theorem, **dict.fromkeys(QUANTITIES, spread)},
        ... }
        >>> environment = {"python": "3.11", "torch": "2.13"}
        >>> report = {
        ...     "seconds": 60, "parts": {}, "command": "make demo", "settings": {"sequences": 256, "seed": 0},
        ...     "environment": environment, "models": {"mamba2": model},
        ... }
        >>> with TemporaryDirectory() as folder:
        ...     write_report(report, Path(folder))
        ...     sorted(file.name for file in Path(folder).iterdir())
        ['report.json', 'report.md']
    """
    report = json_ready(report)
    write_bytes(folder / "report.md", markdown(report).encode())
    write_json(folder / "report.json", report)


def print_report(report: dict[str, Any], folder: Path, console: Console) -> None:
    """Print accuracy and verdict of every run, what has to be seen in red, and where the report is.

    Example:
        >>> print_report({"models": {}, "seconds": 1.0}, Path("out"), Console())
        Report after 1 s: out/report.md
    """
    for name, model in report["models"].items():
        sections = [_section(analysis) for analysis in reported_questions()]
        first, *rest = [line for part in sections if part.applies_to(model) for line in part.lines(model)]
        console.print(f"[bold]{name}[/]: {first}", highlight=False)
        for line in rest:
            console.print(f"  {line}", highlight=False)
    console.print(
        f"Report after {report['seconds']:.0f} s: {folder / 'report.md'}", highlight=False, soft_wrap=True
    )


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser("python -m analysis.report", "Analyse runs and write one report of them all.")
    add_runs_argument(parser, several=True)
    add_output_flag(parser, "out/report")
    add_config_flags(parser, ReportSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(ReportSettings, given_fields(arguments, ReportSettings))
    folder = Path(arguments.out if arguments.out is not None else "out/report")
    runs = [load_run(run) for run in arguments.runs]
    require_different_names(runs)
    check_writable(folder)
    console, began = Console(), time.monotonic()
    tasks = [task for run in runs for task in tasks_of(run, folder, settings)]
    tasks += comparison_tasks(runs, folder, settings)
    with two_processes() as pool:
        futures = {pool.submit(perform_quietly, task): task.label for task in tasks}
        parts = finish_tasks(futures, console)
    command = " ".join(["python -m analysis.report", *(argv if argv is not None else sys.argv[1:])])
    report = collect(runs, folder, settings, time.monotonic() - began, parts, command)
    write_report(report, folder)
    print_report(report, folder, console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Example:
        The exit code is 2 for bad input; the sentence that says why goes to standard error.

        >>> main(["no/such/run"])
        2
    """
    return run_command(_command, argv)
