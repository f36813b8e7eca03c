"""What accuracy on the tasks of a report is no evidence that a state is tracked."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.framework.finding import Rows
from automata.tasks.audit import shortcut_audit
from implicit.runs.loading import Run

WINDOWS = (0, 1, 2, 4, 8)
"""Classifiers that see the last so many tokens only."""


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
            audit = shortcut_audit(run.task, run.config.length, windows=WINDOWS)
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
        "What accuracy is no evidence of tracking: the share of right answers, in the last tokens, of the "
        "best classifier that sees only the last k tokens and, where that helps, the position.",
        Rows(
            ["task", "length", "most frequent answer", *(f"k = {window}" for window in windows), "figures"],
            [
                [
                    name,
                    str(audit["length"]),
                    f"{audit['majority']:.3f}",
                    *(f"{_best(entry):.3f}" for entry in audit["windows"]),
                    audit["method"],
                ]
                for name, audit in tasks.items()
            ],
        ).markdown(),
    ]


def _best(entry: Mapping[str, Any]) -> float:
    return max(entry["accuracy"], entry["with_position"] or 0.0)
