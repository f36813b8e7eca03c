"""Runs that differ in their seed only: how they are collected, named and drawn, the same in every figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.framework.figures import COLORS, MODEL_COLORS
from paper_figures.experiments.outcomes import Outcome

Group = dict[str, Any]
"""``settings`` that the runs share, ``seeds`` with the value of each run, and the seeds that ``failed``."""

LABELS = {"implicit-mamba2": "implicit Mamba-2", "mamba2": "explicit Mamba-2", "lstm": "LSTM"}
MARKERS = {"implicit-mamba2": "o", "mamba2": "s", "lstm": "^"}
DASHES = {"lstm": "--"}
_MORE_DASHES = ((0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def grouped(outcomes: Sequence[Outcome], measurement: str) -> list[Group]:
    """Collect a measurement by settings and seed, in the order of the grid.

    Example:
        >>> from paper_figures.experiments.grid import Point
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 2})
        >>> grouped([Outcome(point, {}, complete=False)], "accuracy")
        [{'settings': {'task': 'parity', 'model': 'lstm'}, 'seeds': {}, 'failed': [2]}]
    """
    groups: list[Group] = []
    for outcome in outcomes:
        settings = outcome.point.variant
        group = next((group for group in groups if group["settings"] == settings), None)
        if group is None:
            group = {"settings": settings, "seeds": {}, "failed": []}
            groups.append(group)
        if measurement in outcome.values:
            group["seeds"][str(outcome.point.seed)] = outcome.values[measurement]
        else:
            group["failed"].append(outcome.point.seed)
    return groups


def group_label(settings: Mapping[str, Any]) -> str:
    """Return the name of a group in a legend: the model, and what else was set.

    Example:
        >>> group_label({"task": "parity", "model": "lstm", "carried_share": 0.9})
        'LSTM, carried share 0.9'
    """
    rest = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in settings.items()
        if name not in ("task", "model")
    ]
    return ", ".join([LABELS.get(settings["model"], settings["model"]), *rest])


@dataclass(frozen=True)
class GroupStyle:
    """How the runs of a group are drawn.

    Attributes:
        label: in the legend.
        color: that of the model in every figure.
        marker: that of the model.
        dashes: that of the model; other groups of the same model have others.

    Example:
        >>> style = GroupStyle("LSTM", "#009E73", "^", "--")
        >>> style.marker
        '^'
    """

    label: str
    color: str
    marker: str = ""
    dashes: Any = "-"


def group_styles(groups: Sequence[Group]) -> list[GroupStyle]:
    """Return a style for every group, so that no two groups look the same.

    Example:
        >>> runs = [{"settings": {"model": "mamba2", "carried_share": share}} for share in (0.0, 0.9)]
        >>> one, other = group_styles(runs)
        >>> one.color == other.color, one.dashes == other.dashes
        (True, False)
    """
    spare = [color for color in COLORS if color not in MODEL_COLORS.values()]
    styles, seen = [], dict[str, int]()
    for group in groups:
        model = group["settings"]["model"]
        number = seen[model] = seen.get(model, -1) + 1
        new = [name for name in seen if name not in MODEL_COLORS]
        color = MODEL_COLORS[model] if model in MODEL_COLORS else spare[new.index(model) % len(spare)]
        dashes = DASHES.get(model, "-") if number == 0 else _MORE_DASHES[(number - 1) % len(_MORE_DASHES)]
        styles.append(GroupStyle(group_label(group["settings"]), color, MARKERS.get(model, "D"), dashes))
    return styles


def draw_runs(axes: Axes, x: Any, values: Any, style: GroupStyle) -> None:
    """Draw every run as a thin line and the mean of all as a thick one; nothing if there is no run.

    Args:
        axes: where to draw.
        x: ``[points]``.
        values: ``[runs, points]``.
        style: of the lines.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> draw_runs(axes, [1, 2], np.array([[0.0, 1.0], [1.0, 1.0]]), GroupStyle("LSTM", "black"))
        >>> [line.get_ydata().tolist() for line in axes.lines], axes.lines[-1].get_label()
        ([[0.0, 1.0], [1.0, 1.0], [0.5, 1.0]], 'LSTM, mean of 2 runs')
    """
    if not len(values):
        return
    runs = np.asarray(values, dtype=float)
    axes.plot(x, runs.T, linestyle=style.dashes, color=style.color, linewidth=0.8, alpha=0.7)
    axes.plot(
        x,
        runs.mean(axis=0),
        marker=style.marker,
        linestyle=style.dashes,
        color=style.color,
        linewidth=2.2,
        label=f"{style.label}, mean of {len(runs)} run{'s' * (len(runs) > 1)}",
    )


def draw_legend(axes: Axes, **placed: Any) -> None:
    """Draw the legend, or say that no run ended well if there is nothing to name.

    Args:
        axes: where to draw.
        placed: how, as matplotlib takes it.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> draw_legend(axes)
        >>> axes.texts[0].get_text()
        'no run ended well'
    """
    if axes.get_legend_handles_labels()[1]:
        axes.legend(**placed)
    else:
        axes.text(0.5, 0.5, "no run ended well", ha="center", va="center", transform=axes.transAxes)
