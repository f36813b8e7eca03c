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

from analysis import convergence, length_generalization
from analysis.agreement import measurement as agreement
from analysis.framework.command import add_output_flag
from analysis.framework.output import RunIdentity, check_writable, json_ready, require_different_names
from analysis.jacobian import measurement as jacobian
from analysis.report.markdown import markdown
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.models.implicit_mamba2 import ImplicitMamba2
from implicit.runs.environment import describe_environment
from implicit.runs.files import read_json, write_bytes, write_json
from implicit.runs.loading import Run, load_run

PROCESSES = 2
"""Tasks at a time, one thread each: the models are too small for more threads to help."""


class ReportSettings(BaseModel):
    """How much is looked at; the defaults take about two minutes of one core for the models of the demo.

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
    """One analysis of one run (of all runs for the accuracy by length), to be run in any process.

    Attributes:
        analysis: name of the module.
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
        settings, seed = self.settings, self.settings.seed
        began = time.monotonic()
        if self.analysis == length_generalization.NAME:
            found = length_generalization.analyse(
                [load_run(run) for run in self.runs],
                lengths=settings.lengths,
                sequences=settings.sequences,
                seed=seed,
            )
            length_generalization.write(found, self.folder, time.monotonic() - began)
            return time.monotonic() - began
        run = load_run(self.runs[0])
        if self.analysis == jacobian.ANALYSIS.name:
            states = jacobian.JacobianSettings(
                states=settings.states, length=settings.states_length, seed=seed
            )
            jacobian.ANALYSIS.run(run, states, self.folder)
        elif self.analysis == convergence.ANALYSIS.name:
            followed = convergence.ConvergenceSettings(
                sequences=settings.convergence_sequences,
                length=settings.mode_length,
                max_iterations=settings.max_iterations,
                seed=seed,
            )
            convergence.ANALYSIS.run(run, followed, self.folder)
        else:
            compared = agreement.AgreementSettings(
                sequences=settings.agreement_sequences,
                length=settings.mode_length,
                max_iterations=settings.max_iterations,
                seed=seed,
            )
            agreement.ANALYSIS.run(run, compared, self.folder)
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
    names = ["jacobian"]
    if isinstance(run.model, ImplicitMamba2):
        names = ["agreement", "jacobian", "convergence"]
    return [
        Task(name, (str(run.path),), folder / "analysis" / run.path.resolve().name, settings)
        for name in names
    ]


def accuracy_task(runs: Sequence[Run], folder: Path, settings: ReportSettings) -> Task:
    """Return the task that measures accuracy by length of all runs.

    Example:
        >>> accuracy_task([], Path("out"), ReportSettings()).folder.name
        'analysis'
    """
    paths = tuple(str(run.path) for run in runs)
    return Task(length_generalization.NAME, paths, folder / "analysis", settings)


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
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as parent:
        ...     folder = Path(parent)
        ...     (folder / "analysis").mkdir()
        ...     write_json(folder / "analysis" / "length_generalization.json", {"result": {}})
        ...     report = collect([], folder, ReportSettings(), seconds=1.0, parts={}, command="demo")
        >>> report["models"], report["command"]
        ({}, 'demo')
    """
    accuracies = read_json(folder / "analysis" / f"{length_generalization.NAME}.json")["result"]
    models = {}
    for run in runs:
        identity = RunIdentity.of(run)
        results = folder / "analysis" / identity.name
        accuracy = accuracies[identity.name]
        entry: dict[str, Any] = {
            "parameters": identity.parameters,
            "model": identity.model,
            "task": identity.task,
            "training_length": identity.training_length,
            "training_steps": run.metrics[-1]["step"] if run.metrics else None,
            "training_seconds": run.metrics[-1].get("seconds") if run.metrics else None,
            "seed": identity.seed,
            "weights_sha256": identity.weights_sha256,
            "accuracy": accuracy["accuracy"],
            "accuracy_interval": accuracy["interval"],
            "chance": accuracy["chance"],
        }
        found = read_json(results / "jacobian.json")["result"]
        entry["theorem1"] = found["theorem1"]
        entry["block_masses"] = found["blocks"] and found["blocks"]["groups"]
        if isinstance(run.model, ImplicitMamba2):
            entry["agreement"] = read_json(results / "agreement.json")["result"]
            entry["state_names"] = run.task.state_names[: run.task.state_count]
            found = read_json(results / "convergence.json")["result"]
            entry["convergence"] = {
                mode: {key: found[mode][key] for key in ("share_converged", "mean_iterations", "by_length")}
                for mode in found
            }
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
        accuracy = ", ".join(f"{value:.3f} at {length}" for length, value in model["accuracy"].items())
        console.print(f"[bold]{name}[/]: accuracy {accuracy}", highlight=False)
        console.print(f"  {model['theorem1']['sentence']}", highlight=False)
        found = model.get("agreement")
        if found is not None:
            style = None if found["is_demanded"] else "bold red"
            console.print(f"  {found['sentence']}", style=style, highlight=False)
    console.print(
        f"Report after {report['seconds']:.0f} s: {folder / 'report.md'}", highlight=False, soft_wrap=True
    )


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser("python -m analysis.report", "Analyse runs and write one report of them all.")
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, or names of stored runs")
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
    with two_processes() as pool:
        futures = {
            pool.submit(perform_quietly, task): task.label
            for task in [*tasks, accuracy_task(runs, folder, settings)]
        }
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
