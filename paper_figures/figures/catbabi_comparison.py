"""How one implicit layer compares with one explicit layer on catbAbI, task by task."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper_figures.figures.catbabi_training import NOT_TRAINED

EXPLICIT, IMPLICIT = "explicit Mamba-2", "implicit Mamba-2"
"""The names of the two that are compared."""


def shares(series: Mapping[str, Any], task: int | None = None) -> list[float]:
    """Return the share of right answers of every run, over all questions or those of a task.

    Example:
        >>> run = {"accuracy": 0.5, "tasks": {"7": {"right": 3, "asked": 4}}}
        >>> shares({"seeds": {"0": run}}), shares({"seeds": {"0": run}}, 7)
        ([0.5], [0.75])
    """
    runs = series["seeds"].values()
    if task is None:
        return [float(run["accuracy"]) for run in runs]
    return [run["tasks"][str(task)]["right"] / run["tasks"][str(task)]["asked"] for run in runs]


def tasks_ahead(models: Mapping[str, Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return on how many trained tasks one implicit layer is ahead of one explicit, and on how many behind.

    Compared are means over the seeds that both have.

    Returns:
        Tasks on which the implicit layer is ahead; on which it is behind; the number of tasks.

    Example:
        >>> run = lambda right: {"seeds": {"0": {"tasks": {"1": {"right": right, "asked": 9}}}}}
        >>> tasks_ahead({IMPLICIT: run(8), EXPLICIT: run(7)})
        (1, 0, 1)
    """
    compared = _by_task(models)
    ahead = sum(bool(np.mean(implicit) > np.mean(explicit)) for implicit, explicit in compared)
    behind = sum(bool(np.mean(implicit) < np.mean(explicit)) for implicit, explicit in compared)
    return ahead, behind, len(compared)


def tasks_apart(models: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
    """Return on how many trained tasks every run of one layer is ahead of every run of the other.

    Compared are the runs of the seeds that both have.

    Returns:
        Tasks on which all implicit runs are ahead; on which all explicit ones are.

    Example:
        >>> run = lambda right: {"seeds": {"0": {"tasks": {"1": {"right": right, "asked": 9}}}}}
        >>> tasks_apart({IMPLICIT: run(8), EXPLICIT: run(7)})
        (1, 0)
    """
    compared = _by_task(models)
    above = sum(min(implicit) > max(explicit) for implicit, explicit in compared)
    below = sum(max(implicit) < min(explicit) for implicit, explicit in compared)
    return above, below


def _by_task(models: Mapping[str, Mapping[str, Any]]) -> list[tuple[list[int], list[int]]]:
    """The right answers of the implicit and of the explicit runs, on every trained task."""
    seeds = sorted(set(models[IMPLICIT]["seeds"]) & set(models[EXPLICIT]["seeds"]))
    known = sorted({int(task) for seed in seeds for task in models[IMPLICIT]["seeds"][seed]["tasks"]})
    return [
        (_right(models[IMPLICIT], seeds, task), _right(models[EXPLICIT], seeds, task))
        for task in known
        if task != NOT_TRAINED
    ]


def _right(series: Mapping[str, Any], seeds: list[str], task: int) -> list[int]:
    return [int(series["seeds"][seed]["tasks"][str(task)]["right"]) for seed in seeds]
