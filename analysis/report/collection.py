"""``report.json`` and ``report.md``, made from the results that the tasks leave in ``FOLDER/analysis``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from analysis.framework.output import RunIdentity, json_ready
from analysis.questions import reported_questions, section_of
from analysis.report.markdown import markdown
from analysis.report.settings import ReportSettings
from analysis.report.shortcuts import task_shortcuts
from analysis.report.tasks import RESULTS
from implicit.runs.environment import describe_environment
from implicit.runs.files import write_bytes, write_json
from implicit.runs.loading import Run


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
            "training_length": None if identity.compiled else identity.training_length,
            "training_steps": run.metrics[-1]["step"] if run.metrics else None,
            "training_seconds": run.metrics[-1].get("seconds") if run.metrics else None,
            "seed": identity.seed,
            "weights_sha256": identity.weights_sha256,
        }
        for analysis in reported_questions():
            if analysis.needs.met_by(run.model):
                result = analysis.stored_result(folder / RESULTS, identity.name)
                entry |= section_of(analysis).content(run, result)
        models[identity.name] = entry
    return {
        "seconds": seconds,
        "parts": parts,
        "command": command,
        "settings": settings.model_dump(),
        "environment": describe_environment(),
        "tasks": task_shortcuts(runs),
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
        >>> theorem["kind_sentence"] = "The transition is diagonal and linear."
        >>> from theory.theorem1.report import QUANTITIES
        >>> model = {
        ...     "model": "mamba2", "task": "parity", "parameters": 9, "training_length": 32,
        ...     "training_steps": 5, "training_seconds": 1.5, "seed": 0, "weights_sha256": "ab" * 32,
        ...     "accuracy": {"32": 0.5}, "accuracy_interval": {"32": [0.4, 0.6]},
        ...     "majority_baseline": {"32": 0.5}, "block_masses": None,
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
        sections = [section_of(analysis) for analysis in reported_questions()]
        lines = [line for part in sections if part.applies_to(model) for line in part.lines(model)]
        first, *rest = lines or ["no analysis has anything to say of it"]
        console.print(Text.assemble((name, "bold"), ": ", first), highlight=False)
        for line in rest:
            console.print(Text.assemble("  ", line), highlight=False)
    console.print(
        f"Report after {report['seconds']:.0f} s: {folder / 'report.md'}", highlight=False, soft_wrap=True
    )
