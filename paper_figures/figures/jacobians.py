"""State-to-state Jacobians of the explicit and the implicit Mamba-2 on parity, with the verdict of Theorem 1.

The block ∂h'/∂h is shown whole, as the root mean square of its entries over cells, and its first entries one
by one; beside them off-diagonal mass and nonlinearity at every visited state, with what they have to exceed.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.framework.figures import GREY, MODEL_COLORS
from analysis.framework.output import json_ready
from analysis.jacobian.measurement import JacobianAnalysis, JacobianSettings, analyse
from paper_figures.figures.figure import PaperFigure, Results, RunRecipe, Runs
from theory.fixed_point import ERROR_MARGIN

CELLS = 128
"""Cells along a side of the whole block."""
ZOOM = 24
"""Entries along a side of the enlarged corner."""
DECADES = 6
"""Range of the colours below the largest entry; smaller entries, but not zeros, share the darkest colour."""
SETTINGS = JacobianSettings(states=64, sequences=16, length=64, seed=0)
LABELS = {"mamba2": "explicit Mamba-2", "implicit-mamba2": "implicit Mamba-2"}

FloatArray = NDArray[np.float64]


def compute(runs: Runs) -> Results:
    """Check Theorem 1 at visited states of every run and keep one Jacobian of each.

    Raises:
        InputError: for a run without any fixed point.

    Example:
        >>> compute({})["models"]
        {}
    """
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "cells": CELLS,
        "models": {wanted.model: _numbers(analyse(run, SETTINGS)) for wanted, run in runs.items()},
    }


def _numbers(found: JacobianAnalysis) -> dict[str, Any]:
    layers = [layer for check in found.report.checks for layer in check.layers]
    shown: dict[str, Any] | None = None
    if found.shown is not None:
        block = found.shown.state_block.numpy()
        shown = {
            "state": next(iter(found.spectra)),
            "size": len(block),
            "heads": [entry.start for entry in found.shown.blocks if entry.kind == "state"],
            "whole": logarithms(root_mean_squares(block, CELLS)),
            "corner": logarithms(np.abs(block[:ZOOM, :ZOOM])),
        }
    numbers: dict[str, Any] = json_ready(
        {
            "theorem1": found.theorem1(),
            "off_diagonal_mass": [layer.off_diagonal_mass for layer in layers],
            "off_diagonal_error": [layer.off_diagonal_error for layer in layers],
            "nonlinearity": [layer.nonlinearity for layer in layers],
            "nonlinearity_error": [layer.nonlinearity_error for layer in layers],
            "shown": shown,
        }
    )
    return numbers


def root_mean_squares(matrix: FloatArray, cells: int) -> FloatArray:
    """Return the root mean square over equal square cells, at most ``cells`` along a side.

    Example:
        >>> root_mean_squares(np.diag([2.0, 2.0, 4.0, 4.0]), 2)
        array([[1.41421356, 0.        ],
               [0.        , 2.82842712]])
    """
    starts = np.unique(np.linspace(0, len(matrix), min(cells, len(matrix)), endpoint=False).astype(int))
    sums = np.add.reduceat(np.add.reduceat(matrix**2, starts, axis=0), starts, axis=1)
    widths = np.diff([*starts, len(matrix)])
    means: FloatArray = np.sqrt(sums / np.outer(widths, widths))
    return means


def logarithms(magnitudes: FloatArray) -> FloatArray:
    """Return decimal logarithms to two digits, all that colours can show; minus infinity for a zero.

    Example:
        >>> logarithms(np.array([1000.0, 2.0, 0.0])).tolist()
        [3.0, 0.3, -inf]
    """
    with np.errstate(divide="ignore"):
        rounded: FloatArray = np.log10(magnitudes).round(2)
    return rounded


def draw(found: Results) -> Figure:
    """Draw a column for each model, and one for the conclusions at all states.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("jacobians").results).axes) >= 6
        True
    """
    models = found["models"]
    drawn = [model for model in LABELS if models[model]["shown"] is not None]
    largest = max(
        _entries(models[model]["shown"][part]).max() for model in drawn for part in ("whole", "corner")
    )
    colors = LogNorm(largest * 10.0**-DECADES, largest)
    figure = Figure(figsize=(10.5, 7.4), layout="constrained")
    columns = figure.subplots(2, 3, width_ratios=[1, 1, 0.95])
    for column, model in enumerate(LABELS):
        shown = models[model]["shown"]
        verdict = models[model]["theorem1"]["verdict"]
        mass = models[model]["theorem1"]["off_diagonal_mass"]["median"]
        columns[0, column].set_title(
            f"{LABELS[model]}: ∂h'/∂h\nTheorem 1 {verdict}; off-diagonal mass {_short(mass)}"
        )
        if shown is not None:
            _draw_whole(columns[0, column], shown, colors)
            _draw_corner(columns[1, column], shown, colors)
    figure.colorbar(
        ScalarMappable(colors, "magma_r"),
        ax=columns[:, :2],
        label="absolute value (white: exactly 0)",
        shrink=0.5,
        aspect=40,
        location="bottom",
    )
    _draw_conclusions(columns[0, 2], models, "off_diagonal_mass", "off_diagonal_error", "off-diagonal mass")
    _draw_conclusions(columns[1, 2], models, "nonlinearity", "nonlinearity_error", "nonlinearity")
    columns[0, 2].legend(loc="center right", bbox_to_anchor=(1, 0.24))
    return figure


def _draw_whole(axes: Axes, shown: Mapping[str, Any], colors: LogNorm) -> None:
    """Draw the whole block with lines between the heads."""
    size = shown["size"]
    _draw_image(axes, _entries(shown["whole"]), colors, size)
    for start in shown["heads"][1:]:
        axes.axhline(start, color="black", linewidth=0.4, alpha=0.5)
        axes.axvline(start, color="black", linewidth=0.4, alpha=0.5)
    ends = [*shown["heads"], size]
    middles = [(start + stop) / 2 for start, stop in pairwise(ends)]
    names = [f"head {head}" for head in range(len(middles))]
    axes.set_xticks(middles, names)
    axes.set_yticks(middles, names, rotation=90, va="center")
    axes.tick_params(length=0)
    axes.set(xlabel="state before the token, h", ylabel="state after the token, h'")


def _draw_corner(axes: Axes, shown: Mapping[str, Any], colors: LogNorm) -> None:
    """Draw the first entries of the block one by one."""
    corner = _entries(shown["corner"])
    _draw_image(axes, corner, colors, len(corner))
    axes.set(
        title=f"its first {len(corner)} × {len(corner)} entries",
        xlabel="entry of h",
        ylabel="entry of h'",
    )


def _draw_image(axes: Axes, magnitudes: FloatArray, colors: LogNorm, size: int) -> None:
    shown = np.where(magnitudes > 0, np.maximum(magnitudes, colors.vmin or 0), np.nan)
    axes.imshow(shown, norm=colors, cmap="magma_r", extent=(0, size, size, 0), interpolation="nearest")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _entries(logarithms_: list[list[float | None]]) -> FloatArray:
    """Undo `logarithms`; JSON holds None for the logarithm of zero."""
    return np.array([[0.0 if entry is None else 10.0**entry for entry in row] for row in logarithms_])


def _draw_conclusions(axes: Axes, models: Mapping[str, Any], quantity: str, error: str, label: str) -> None:
    """Draw a quantity at every state, sorted, with a tick at what it has to exceed."""
    floor = np.finfo(np.float64).eps / 10
    for model, marker in zip(LABELS, "so", strict=True):
        values, errors = models[model][quantity], models[model][error]
        pairs = sorted(
            (max(value, floor), ERROR_MARGIN * bound)
            for value, bound in zip(values, errors, strict=True)
            if value is not None
        )
        if not pairs:
            continue
        ordered, thresholds = np.array(pairs).T
        places = np.arange(1, len(pairs) + 1)
        color = MODEL_COLORS[model]
        axes.plot(places, ordered, marker, color=color, markersize=3, label=LABELS[model])
        axes.plot(
            places,
            thresholds,
            "_",
            color=color,
            alpha=0.6,
            label=f"its threshold, {ERROR_MARGIN:.0f} × error",
        )
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, 10 * high)
    if floor > low and any(0 in models[model][quantity] for model in LABELS):
        axes.text(1, 3 * floor, "exactly 0", color=GREY, fontsize=8)
    axes.set(xlabel="visited states, sorted", ylabel=f"{label}, relative to ‖∂h'/∂h‖")


def _short(value: float | None) -> str:
    return "not measured" if value is None else "0" if value == 0 else f"{value:.2g}"


def caption(found: Results) -> str:
    """Tell what is drawn, with the counts of states.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> caption(StoredResults.read("jacobians").results).startswith("State-to-state Jacobian")
        True
    """
    settings, models = found["settings"], found["models"]
    verdicts = [f"{LABELS[model]}: {_counts(models[model]['theorem1'])}" for model in LABELS]
    shown = models["implicit-mamba2"]["shown"]
    cell = shown["size"] // found["cells"] if shown is not None else 1
    return (
        "State-to-state Jacobian ∂h'/∂h of models trained on parity, in float64, at the visited state of "
        f"median off-diagonal mass: root mean square over cells of {cell} × {cell} entries (top) and single "
        f"entries (bottom). Right: both conclusions of Theorem 1 at states of {settings['sequences']} "
        f"sequences of {settings['length']} tokens (data seed {settings['seed']}). Verdicts: "
        f"{'; '.join(verdicts)}."
    )


def _counts(theorem1: Mapping[str, Any]) -> str:
    parts = [f"{verdict} at {count} states" for verdict, count in theorem1["counts"].items() if count]
    return ", ".join(parts)


FIGURE = PaperFigure(
    name="jacobians",
    title="State-to-state Jacobians, explicit and implicit",
    runs=(RunRecipe("parity", "mamba2", 0), RunRecipe("parity", "implicit-mamba2", 0)),
    compute=compute,
    draw=draw,
    caption=caption,
)
