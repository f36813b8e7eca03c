"""Runs that differ in their seed only: how they are collected and named, and which looks they have."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from analysis.framework.figures import legend_below
from analysis.framework.palette import Look, distinct_looks, model_label, model_looks
from paper_figures.experiments.outcomes import Outcome

Group = dict[str, Any]
"""``settings`` that the runs share, ``seeds`` with the value of each run, and the seeds that ``failed``."""


def grouped(outcomes: Sequence[Outcome], measurement: str) -> list[Group]:
    """Collect a measurement by settings and seed, in the order of the grid.

    Example:
        >>> from paper_figures.experiments.point import Point
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


def parameters_of(outcomes: Sequence[Outcome], settings: Mapping[str, Any]) -> int | None:
    """Return how many parameters the runs of a group have; None if no run was trained.

    Example:
        >>> parameters_of([], {"model": "lstm"}) is None
        True
    """
    counts = (outcome.run.get("parameters") for outcome in outcomes if outcome.point.variant == settings)
    return next((int(count) for count in counts if count is not None), None)


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
    return ", ".join([model_label(settings["model"]), *rest])


def group_looks(groups: Sequence[Group]) -> list[Look]:
    """Return a look for every group, so that no two are the same: colour and marker are those of the model.

    Example:
        >>> runs = [{"settings": {"model": "mamba2", "carried_share": share}} for share in (0.0, 0.9)]
        >>> one, other = group_looks(runs)
        >>> one.color == other.color, one.dashes == other.dashes
        (True, False)
    """
    of_model = model_looks(group["settings"]["model"] for group in groups)
    return distinct_looks(of_model[group["settings"]["model"]] for group in groups)


def draw_legend(axes: Axes, columns: int = 1, *, nothing: str = "no run ended well") -> None:
    """Draw the legend below the panel, or say why if there is nothing to name.

    Args:
        axes: where to draw.
        columns: of the legend.
        nothing: what is said then.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> draw_legend(axes)
        >>> axes.texts[0].get_text()
        'no run ended well'
    """
    if axes.get_legend_handles_labels()[1]:
        legend_below(axes, columns=columns)
    else:
        axes.text(0.5, 0.5, nothing, ha="center", va="center", transform=axes.transAxes)
