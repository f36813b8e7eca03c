"""Runs that differ in their seed only: which these are, and how they are drawn together."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from matplotlib.axes import Axes

from analysis.framework.output import RunIdentity
from analysis.framework.palette import GREY, Look, distinct_looks, model_looks
from automata.drawing import in_legend

RUN_LINES = (
    "Thin lines are single runs, thick ones their mean; bands reach from the lowest to the highest run."
)
"""The words of captions for lines and bands."""


def draw_runs(
    axes: Axes,
    x: Any,
    values: Any,
    look: Look,
    label: str,
    *,
    breadth: float = 1.8,
    middle: Literal["mean", "median"] = "mean",
) -> None:
    """Draw every run as a thin line, their mean as a thick one, and a band from the least to the largest.

    Nothing if there is no run. Values are ``[runs, points]``; the number of runs is added to the label.
    """
    if not len(values):
        return
    runs = np.asarray(values, dtype=float)
    if len(runs) > 1:
        axes.fill_between(x, runs.min(axis=0), runs.max(axis=0), color=look.color, alpha=0.18, linewidth=0)
        axes.plot(x, runs.T, linestyle=look.dashes, color=look.color, linewidth=0.6, alpha=0.7)
    axes.plot(
        x,
        runs.mean(axis=0) if middle == "mean" else np.median(runs, axis=0),
        marker=look.marker,
        linestyle=look.dashes,
        color=look.color,
        linewidth=breadth,
        markersize=2 + breadth,
        label=in_legend(f"{label}, {middle} of {len(runs)} runs" if len(runs) > 1 else f"{label}, 1 run"),
    )


def breadths(count: int) -> list[float]:
    """Return breadths of lines, the first the broadest, so that equal ones show behind one another.

    Example:
        >>> breadths(1), breadths(3)
        ([1.8], [3.2, 2.1, 1.0])
    """
    return [1.8] if count < 2 else [round(1.0 + 2.2 * (1 - place / (count - 1)), 3) for place in range(count)]


def mark_training_lengths(axes: Axes, runs: Iterable[RunIdentity]) -> None:
    """Draw a dashed line at every training length that is known; compiled models have none.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> mark_training_lengths(axes, [RunIdentity("a", "parity", "lstm", 178, 32, 0, "0" * 64)])
        >>> [line.get_label() for line in axes.lines]
        ['training length']
    """
    lengths = {run.training_length for run in runs if run.training_length and not run.compiled}
    for number, length in enumerate(sorted(lengths)):
        label = "training length" if number == 0 else ""
        axes.axvline(length, color=GREY, linewidth=0.8, linestyle="--", label=label)


class OfRun(Protocol):
    """A finding, and the run that it is of."""

    @property
    def run(self) -> RunIdentity:
        """Which run."""
        ...


Found = TypeVar("Found", bound=OfRun)


def drawn_groups(runs: Sequence[Found]) -> list[tuple[list[Found], str, Look, float]]:
    """Return runs that differ in their seed only as groups, each with its label, its look and its breadth.

    Groups are in the order of their first runs, and no two look the same. Runs of one model, task, size and
    training length with the same seed differ in something else: each of these is a group of its own.

    Example:
        >>> from types import SimpleNamespace
        >>> def run(name: str, model: str, seed: int) -> OfRun:
        ...     return SimpleNamespace(run=RunIdentity(name, "parity", model, 178, 32, seed, "0" * 64))
        >>> groups = drawn_groups([run("a", "lstm", 0), run("b", "gru", 0), run("c", "lstm", 1)])
        >>> [(len(group), label, breadth) for group, label, _, breadth in groups]
        [(2, 'lstm', 3.2), (1, 'b', 1.0)]
        >>> [label for _, label, *_ in drawn_groups([run("a", "lstm", 0), run("b", "lstm", 0)])]
        ['a', 'b']
    """
    alike: dict[tuple[object, ...], list[Found]] = {}
    for found in runs:
        run = found.run
        kind = (run.task, run.model, run.parameters, run.training_length, run.compiled)
        alike.setdefault(kind, []).append(found)
    groups: list[list[Found]] = []
    for group in alike.values():
        different = len({found.run.seed for found in group}) == len(group)
        groups += [group] if different else [[found] for found in group]
    of_model = model_looks(group[0].run.model for group in groups)
    looks = distinct_looks([of_model[group[0].run.model] for group in groups])
    labels = [group[0].run.model if len(group) > 1 else in_legend(group[0].run.name) for group in groups]
    return list(zip(groups, labels, looks, breadths(len(groups)), strict=True))
