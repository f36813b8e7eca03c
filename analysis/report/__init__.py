"""All analyses of one run or several, in one report: ``python -m analysis.report RUN``.

``report.json`` and ``report.md`` are made from the results that the tasks leave in ``FOLDER/analysis``.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from analysis.framework.analysis import Analysis, Comparison
from analysis.framework.finding import Finding, Rows, for_report, merged_rows, red
from analysis.framework.output import (
    RunIdentity,
    check_writable,
    json_ready,
    refuse_other_runs,
    require_different_names,
    written_together,
)
from analysis.framework.terminal import Terminal, add_output_flag, add_runs_argument
from analysis.questions import reported_questions, section_of
from analysis.report.tasks import (
    RESULTS,
    ReportSettings,
    comparison_tasks,
    perform_all,
    tasks_of,
    two_processes,
)
from automata.errors import printable
from automata.tasks.audit import shortcut_audit
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.runs.environment import describe_environment
from implicit.runs.files import write_bytes, write_json
from implicit.runs.loading import Run, load_run

__all__ = ["ReportSettings", "collect", "comparison_tasks", "main", "markdown", "print_report", "tasks_of"]

ONE_TRAINING_RUN = "- Each figure is of one training run. How other seeds fare is not part of this report."

_ENTITIES = {
    ord(letter): f"&{name};" for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ("[", "#91"))
}


def without_html(value: Any) -> Any:
    """Return JSON whose names and texts are shown as they are: none begins an element, a link or code.

    Example:
        >>> without_html({"<script>": [1, "a < b"]})
        {'&lt;script&gt;': [1, 'a &lt; b']}
    """
    if isinstance(value, Mapping):
        return {without_html(name): without_html(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_html(part) for part in value]
    return value.translate(_ENTITIES) if isinstance(value, str) else value


def collect(
    runs: Sequence[Run],
    folder: Path,
    settings: ReportSettings,
    seconds: float,
    parts: dict[str, float],
    command: str,
) -> dict[str, Any]:
    """Return the content of ``report.json``, from the results that the tasks left in the folder."""
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
            "findings": {},
        }
        for analysis in reported_questions():
            if analysis.needs.met_by(run.model):
                result, finding = analysis.stored_result(folder / RESULTS, identity.name)
                entry |= section_of(analysis).content(run, result)
                entry["findings"][analysis.name] = finding.json()
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
    """Write ``report.json`` and ``report.md``."""
    report = json_ready(report)
    write_bytes(folder / "report.md", markdown(report).encode())
    write_json(folder / "report.json", report)


def print_report(report: dict[str, Any], folder: Path, console: Console) -> None:
    """Print what was found of every run, in red what has to be seen, and where the report is."""
    for name in report["models"]:
        found = _findings(report, name).values()
        lines = [Text(finding.sentence, "" if finding.holds else "bold red") for finding in found]
        lines += [Text(warning, "bold red") for finding in found for warning in finding.warnings]
        first, *rest = lines or [Text("no analysis has anything to say of it")]
        console.print(Text.assemble((name, "bold"), ": ", first), highlight=False)
        for line in rest:
            console.print(Text.assemble("  ", line), highlight=False)
    console.print(
        f"Report after {report['seconds']:.0f} s: {folder / 'report.md'}", highlight=False, soft_wrap=True
    )


def _findings(report: Mapping[str, Any], name: str) -> dict[str, Finding]:
    """The results of a run by analysis, in the order of the report."""
    found = report["models"][name]["findings"]
    questions = [analysis.name for analysis in reported_questions()]
    return {question: Finding.from_json(found[question]) for question in questions if question in found}


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown; figures are linked by paths relative to its folder."""
    report = {**without_html(report), "command": report["command"]}
    models: dict[str, Any] = dict(report["models"])
    findings = {name: _findings(report, name) for name in models}
    made = [
        analysis for analysis in reported_questions() if any(analysis.name in of for of in findings.values())
    ]
    sections = [
        f"# State tracking on {', '.join(dict.fromkeys(model['task'] for model in models.values()))}",
        "Is the state transition of a trained model non-linear and non-diagonal, as Theorem 1 says of "
        "implicit state-space models, and does the model generalise to longer sequences? Runs analysed: "
        f"{len(models)}, on sequences of a stream that no training draws from.",
        *(
            red(f"{name}: {warning}")
            for name, of in findings.items()
            for finding in of.values()
            for warning in finding.warnings
        ),
        "## In short",
        *_in_short(models, findings, made),
        *shortcut_paragraphs(report.get("tasks", {})),
        "## What was trained",
        _trained(models),
    ]
    for name, of in findings.items():
        sections.append(f"## {name}")
        for analysis in made:
            if analysis.name in of and not isinstance(analysis, Comparison):
                sections += [f"### {analysis.question}", *for_report(of[analysis.name])]
                sections.append(f"![{analysis.name} of {name}](analysis/{name}/{analysis.name}.png)")
    limits = {
        analysis.name: next(of[analysis.name].limits for of in findings.values() if analysis.name in of)
        for analysis in made
    }
    sections += [
        "## What is verified and what is not",
        "\n".join([*(f"- **{name}**: {text}" for name, text in limits.items() if text), ONE_TRAINING_RUN]),
        "## How to reproduce",
        *_reproduce(report),
    ]
    return "\n\n".join(sections) + "\n"


def _in_short(
    models: Mapping[str, Any],
    findings: Mapping[str, Mapping[str, Finding]],
    made: Sequence[Analysis[Any, Any]],
) -> list[str]:
    """The verdicts of every run in a table, then the tables and figures of comparisons."""
    verdicts = {section_of(analysis).title: analysis.name for analysis in made if section_of(analysis).title}
    rows = []
    for name, of in findings.items():
        words = [of[question].verdict if question in of else "–" for question in verdicts.values()]
        rows.append([name, str(models[name]["parameters"]), *words])
    paragraphs = [Rows(["run", "parameters", *verdicts], rows).markdown()]
    for analysis in made:
        if isinstance(analysis, Comparison):
            of_runs = {name: of[analysis.name] for name, of in findings.items() if analysis.name in of}
            paragraphs += [text for rows in merged_rows(of_runs) for text in rows.paragraphs()]
            paragraphs.append(f"![{analysis.question}](analysis/{analysis.name}.png)")
    return paragraphs


def _trained(models: Mapping[str, Any]) -> str:
    columns = ["run", "model", "task", "length", "steps", "seconds", "seed", "SHA-256 of the weights"]
    keys = ("model", "task", "training_length", "training_steps", "training_seconds", "seed")
    rows = [
        [name, *(_shown(model[key]) for key in keys), f"`{model['weights_sha256'][:16]}…`"]
        for name, model in models.items()
    ]
    return Rows(columns, rows).markdown()


def _shown(value: Any) -> str:
    """A number with three digits, a whole number with all, and a dash where there is none."""
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _reproduce(report: Mapping[str, Any]) -> list[str]:
    environment = ", ".join(
        f"{key} {value}" for key, value in report["environment"].items() if value is not None
    )
    seconds = Rows(["part", "seconds"], [[part, f"{taken:.1f}"] for part, taken in report["parts"].items()])
    return [
        f"```\n{report['command']}\n```",
        f"It took {report['seconds']:.0f} seconds. Test sequences: seed {report['settings']['seed']}. "
        f"Environment: {environment}.",
        "All numbers are in `report.json` and in the JSON beside each figure, which is also there as PDF.",
        *([seconds.markdown()] if report["parts"] else []),
    ]


WINDOWS = (0, 1, 2, 4, 8)  # classifiers that see the last so many tokens only


def task_shortcuts(runs: Sequence[Run]) -> dict[str, Any]:
    """Return how far the best classifiers on few tokens come, for every task of the runs.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = task_shortcuts([load_run("parity")])["parity"]
        >>> found["length"], found["majority"], found["windows"][-1]["accuracy"]
        (32, 0.5, 0.5)
    """
    tasks: dict[str, Any] = {}
    for run in runs:
        if run.task.name not in tasks:
            audit = shortcut_audit(run.task, run.reading_length, windows=WINDOWS)
            tasks[run.task.name] = {
                "length": audit.length,
                "last": audit.last,
                "majority": audit.majority,
                "windows": [
                    {"tokens": entry.window, "accuracy": entry.accuracy, "with_position": entry.with_position}
                    for entry in audit.windows
                ],
                "method": audit.method,
            }
    return tasks


def shortcut_paragraphs(tasks: Mapping[str, Any]) -> list[str]:
    """Return what `task_shortcuts` found as Markdown.

    Example:
        >>> audit = {"length": 32, "last": 10, "majority": 0.5, "method": "Exact.", "windows": [
        ...     {"tokens": 1, "accuracy": 0.5, "with_position": None}]}
        >>> print(shortcut_paragraphs({"parity": audit})[1].splitlines()[-1])
        | parity | 32 | 0.500 | 0.500 | Exact. |
    """
    if not tasks:
        return []
    windows = [entry["tokens"] for entry in next(iter(tasks.values()))["windows"]]
    return [
        "An accuracy up to these is no evidence of tracking. Each is the share of right answers in the last "
        "tokens by the best classifier that sees only the last k tokens and, where that helps, the position.",
        Rows(
            ["task", "length", "most frequent answer", *(f"k = {window}" for window in windows), "figures"],
            [[name, str(audit["length"]), *_shares(audit), audit["method"]] for name, audit in tasks.items()],
        ).markdown(),
    ]


def _shares(audit: Mapping[str, Any]) -> list[str]:
    best = [max(entry["accuracy"], entry["with_position"] or 0.0) for entry in audit["windows"]]
    return [f"{share:.3f}" for share in (audit["majority"], *best)]


PLACES = (".json", ".md", "analysis")
"""The endings and the folder of all that a report writes."""


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser("python -m analysis.report", "Analyse runs and write one report of them all.")
    add_runs_argument(parser, several=True)
    add_output_flag(parser, "out/report")
    add_config_flags(parser, ReportSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(ReportSettings, given_fields(arguments, ReportSettings))
    folder = Path(arguments.out if arguments.out is not None else "out/report")
    runs = [load_run(run, allow_code=arguments.allow_code) for run in arguments.runs]
    require_different_names(runs)
    check_writable(folder, files=("report.md", "report.json"))
    refuse_other_runs(folder / "report.json", runs, PLACES)
    console, began = Terminal(), time.monotonic()
    words = argv if argv is not None else sys.argv[1:]
    command = printable(" ".join(["python -m analysis.report", *words]))
    with written_together(folder) as fresh:
        tasks = [task for run in runs for task in tasks_of(run, fresh, settings)]
        tasks += comparison_tasks(runs, fresh, settings)
        with two_processes() as pool:
            parts = perform_all(pool, tasks, console)
        report = collect(runs, fresh, settings, time.monotonic() - began, parts, command)
        write_report(report, fresh)
    print_report(report, folder, console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)
