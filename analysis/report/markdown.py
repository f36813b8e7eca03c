"""``report.md``: what ``report.json`` says, for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.framework.markdown import red, shown, table, without_html
from analysis.framework.report_section import ReportSection
from analysis.questions import reported_questions, section_of
from analysis.report.shortcuts import shortcut_paragraphs

Report = Mapping[str, Any]

ONE_TRAINING_RUN = "- Each figure is of one training run. How other seeds fare is not part of this report."


def markdown(report: Report) -> str:
    """Return the report as Markdown; figures are linked by paths relative to its folder.

    Args:
        report: the content of ``report.json``.

    Example:
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
        >>> text = markdown({
        ...     "seconds": 60, "parts": {}, "command": "make demo", "settings": {"sequences": 256, "seed": 0},
        ...     "environment": environment, "models": {"mamba2": model},
        ... })
        >>> "| mamba2 | 9 | 0.500 (0.400–0.600) | fails |" in text
        True
    """
    report = {**without_html(report), "command": report["command"]}
    models: dict[str, Any] = dict(report["models"])
    parts = [section_of(analysis) for analysis in reported_questions()]
    sections = [
        f"# State tracking on {', '.join(dict.fromkeys(model['task'] for model in models.values()))}",
        "Is the state transition of a trained model non-linear and non-diagonal, as Theorem 1 says of "
        "implicit state-space models, and does the model generalise to longer sequences? Runs analysed: "
        f"{len(models)}, on sequences of a stream that no training draws from.",
        *(
            red(sentence)
            for name, model in models.items()
            for part in parts
            if part.applies_to(model)
            for sentence in part.warnings(name, model)
        ),
        "## In short",
        _in_short(models, parts),
        *(paragraph for part in parts for paragraph in part.overview(report)),
        *shortcut_paragraphs(report.get("tasks", {})),
        "## What was trained",
        table(
            ["run", "model", "task", "length", "steps", "seconds", "seed", "SHA-256 of the weights"],
            [
                [
                    name,
                    model["model"],
                    model["task"],
                    shown(model["training_length"]),
                    shown(model["training_steps"]),
                    shown(model["training_seconds"]),
                    str(model["seed"]),
                    f"`{model['weights_sha256'][:16]}…`",
                ]
                for name, model in models.items()
            ],
        ),
    ]
    for name, model in models.items():
        sections.append(f"## {name}")
        for part in parts:
            if part.applies_to(model):
                sections += part.paragraphs(name, model)
    sections += [
        "## What is verified and what is not",
        "\n".join([*(part.limits for part in parts if part.limits), ONE_TRAINING_RUN]),
        "## How to reproduce",
        *_reproduce(report),
    ]
    return "\n\n".join(sections) + "\n"


def _in_short(models: Mapping[str, Any], parts: Sequence[ReportSection]) -> str:
    """A row for every run, with the columns that the sections give."""
    cells = {
        name: {
            heading: cell
            for part in parts
            if part.applies_to(model)
            for heading, cell in part.columns(model).items()
        }
        for name, model in models.items()
    }
    headings = list(dict.fromkeys(heading for row in cells.values() for heading in row))
    return table(
        ["run", "parameters", *headings],
        [
            [name, str(models[name]["parameters"]), *(row.get(heading, "–") for heading in headings)]
            for name, row in cells.items()
        ],
    )


def _reproduce(report: Report) -> list[str]:
    environment = ", ".join(
        f"{key} {value}" for key, value in report["environment"].items() if value is not None
    )
    return [
        f"```\n{report['command']}\n```",
        f"It took {report['seconds']:.0f} seconds. Test sequences: seed {report['settings']['seed']}. "
        f"Environment: {environment}.",
        "All numbers are in `report.json` and in the JSON beside each figure, which is also there as PDF.",
        *(
            [table(["part", "seconds"], [[part, f"{taken:.1f}"] for part, taken in report["parts"].items()])]
            if report["parts"]
            else []
        ),
    ]
