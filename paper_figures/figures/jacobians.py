"""State-to-state Jacobians of the explicit and the implicit Mamba-2 on parity, with the verdict of Theorem 1.

The block ∂h'/∂h is shown whole, as the root mean square of its entries over cells, and its first entries one
by one; beside them off-diagonal mass and nonlinearity at every visited state, with what they have to exceed.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from analysis.framework.figures import log_axis, new_figure, power_of_ten
from analysis.framework.palette import GREY, model_label
from analysis.jacobian.measurement import JacobianSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import Group, draw_legend, group_label, group_looks, grouped
from theory.fixed_point import ERROR_MARGIN

CELLS = 128
"""Cells along a side of the whole block."""
ZOOM = 24
"""Entries along a side of the enlarged corner."""
DECADES = 6
"""Range of the colours below the largest entry; smaller entries, but not zeros, share the darkest colour."""
SETTINGS = JacobianSettings(states=64, sequences=16, length=64, seed=0)

FloatArray = NDArray[np.float64]


def measure(run: Run, settings: JacobianSettings) -> dict[str, Any]:
    """Check Theorem 1 at visited states of a run, and keep one Jacobian.

    Raises:
        InputError: for a run without any fixed point.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("parity"), JacobianSettings(states=2, sequences=1, length=4))
        >>> found["theorem1"]["states"], len(found["nonlinearity"])
        (2, 2)
    """
    found = analyse(run, settings)
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
    return {
        "theorem1": found.theorem1(),
        "off_diagonal_mass": [layer.off_diagonal_mass for layer in layers],
        "off_diagonal_error": [layer.off_diagonal_error for layer in layers],
        "nonlinearity": [layer.nonlinearity for layer in layers],
        "nonlinearity_error": [layer.nonlinearity_error for layer in layers],
        "shown": shown,
    }


EXPERIMENT = Experiment(
    "jacobians",
    (Grid({"model": ["mamba2", "implicit-mamba2"], "seed": [0]}, {"task": "parity"}),),
    (Measurement("jacobians", measure, SETTINGS),),
)


def collect(outcomes: Sequence[Outcome], settings: JacobianSettings = SETTINGS) -> Results:
    """Collect what was measured of every run.

    Example:
        >>> collect([])["groups"]
        []
    """
    return {
        "settings": settings.model_dump(mode="json"),
        "cells": CELLS,
        "groups": grouped(outcomes, "jacobians"),
    }


def _measured(found: Results) -> list[tuple[Group, dict[str, Any]]]:
    """The groups of which a run ended well, each with its first run."""
    return [(group, next(iter(group["seeds"].values()))) for group in found["groups"] if group["seeds"]]


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


def draw(found: Results, width: float) -> Figure:
    """Draw a column for each model, and the conclusions at all states beside or below them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("jacobians").results, 6.75).axes)
        7
    """
    measured = _measured(found)
    shown = [run["shown"] for _, run in measured if run["shown"] is not None]
    largest = max((_entries(run[part]).max() for run in shown for part in ("whole", "corner")), default=1.0)
    colors = LogNorm(largest * 10.0**-DECADES, largest)
    figure, wholes, corners, conclusions = _panels(len(measured), width)
    for (group, run), whole, corner in zip(measured, wholes, corners, strict=True):
        verdict = run["theorem1"]["verdict"]
        whole.set_title(f"{group_label(group['settings'])}:\nTheorem 1 {verdict}")
        if run["shown"] is not None:
            _draw_whole(whole, run["shown"], colors)
            _draw_corner(corner, run["shown"], colors)
    if shown:
        bar = figure.colorbar(
            ScalarMappable(colors, "magma_r"),
            ax=corners,
            label="absolute value (white: exactly 0)",
            location="bottom",
            aspect=30,
            ticks=LogLocator(numticks=4),
            format=FuncFormatter(power_of_ten),
        )
        bar.ax.xaxis.set_minor_locator(NullLocator())
    for axes, quantity, error, label in zip(
        conclusions,
        ("off_diagonal_mass", "nonlinearity"),
        ("off_diagonal_error", "nonlinearity_error"),
        ("off-diagonal mass", "nonlinearity"),
        strict=True,
    ):
        _draw_conclusions(axes, measured, quantity, error, label)
    draw_legend(conclusions[-1])
    return figure


def _panels(models: int, width: float) -> tuple[Figure, list[Axes], list[Axes], list[Axes]]:
    """A figure with the axes of whole blocks, of corners and of the two conclusions."""
    columns = max(models, 1)
    wholes, corners = ([f"{part}{column}" for column in range(columns)] for part in ("whole", "corner"))
    if width < 5:
        rows: list[Any] = [wholes, corners, ["mass"] * columns, ["nonlinearity"] * columns]
        figure = new_figure(width, 7.8)
        axes: dict[str, Axes] = figure.subplot_mosaic(rows, height_ratios=[1, 1.15, 1, 1])
    else:
        figure = new_figure(width, 4.7)
        rows = [[*wholes, "mass"], [*corners, "nonlinearity"]]
        axes = figure.subplot_mosaic(rows)
    drawn = [[axes[name] for name in names][:models] for names in (wholes, corners)]
    if not models:
        axes["whole0"].set_axis_off()
        axes["corner0"].set_axis_off()
    return figure, drawn[0], drawn[1], [axes["mass"], axes["nonlinearity"]]


def _draw_whole(axes: Axes, shown: Mapping[str, Any], colors: LogNorm) -> None:
    """Draw the whole block with lines between the heads."""
    size = shown["size"]
    _draw_image(axes, _entries(shown["whole"]), colors, size)
    for start in shown["heads"][1:]:
        axes.axhline(start, color="black", linewidth=0.4, alpha=0.5)
        axes.axvline(start, color="black", linewidth=0.4, alpha=0.5)
    ends = [*shown["heads"], size]
    middles = [(start + stop) / 2 for start, stop in pairwise(ends)]
    names = [str(head) for head in range(len(middles))]
    axes.set_xticks(middles, names)
    axes.set_yticks(middles, names)
    axes.tick_params(length=0)
    axes.set(xlabel="head of h, before", ylabel="head of h', after")


def _draw_corner(axes: Axes, shown: Mapping[str, Any], colors: LogNorm) -> None:
    """Draw the first entries of the block one by one."""
    corner = _entries(shown["corner"])
    _draw_image(axes, corner, colors, len(corner))
    axes.set(title=f"first {len(corner)} × {len(corner)} entries", xlabel="entry of h", ylabel="entry of h'")


def _draw_image(axes: Axes, magnitudes: FloatArray, colors: LogNorm, size: int) -> None:
    shown = np.where(magnitudes > 0, np.maximum(magnitudes, colors.vmin or 0), np.nan)
    axes.imshow(shown, norm=colors, cmap="magma_r", extent=(0, size, size, 0), interpolation="nearest")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _entries(logarithms_: list[list[float | None]]) -> FloatArray:
    """Undo `logarithms`; JSON holds None for the logarithm of zero."""
    return np.array([[0.0 if entry is None else 10.0**entry for entry in row] for row in logarithms_])


def _draw_conclusions(
    axes: Axes, measured: list[tuple[Group, dict[str, Any]]], quantity: str, error: str, label: str
) -> None:
    """Draw a quantity at every state, sorted, with a tick at what it has to exceed."""
    floor = np.finfo(np.float64).eps / 10
    for look, (group, run) in zip(group_looks([group for group, _ in measured]), measured, strict=True):
        pairs = sorted(
            (max(value, floor), ERROR_MARGIN * bound)
            for value, bound in zip(run[quantity], run[error], strict=True)
            if value is not None
        )
        if not pairs:
            continue
        name = group_label(group["settings"])
        ordered, thresholds = np.array(pairs).T
        places = np.arange(1, len(pairs) + 1)
        axes.plot(places, ordered, look.marker, color=look.color, markersize=2.5, label=name)
        axes.plot(
            places,
            thresholds,
            "_",
            color=look.color,
            markersize=3,
            alpha=0.6,
            label=f"its threshold, {ERROR_MARGIN:.0f} × error",
        )
    log_axis(axes)
    low, high = axes.get_ylim()
    axes.set_ylim(low, 10 * high)
    if floor > low and any(0 in run[quantity] for _, run in measured):
        axes.annotate("exactly 0", (1, floor), (0, 4), textcoords="offset points", color=GREY)
    axes.set(title=f"{label} at every state", xlabel="visited states, sorted", ylabel="relative to ‖∂h'/∂h‖")


def _short(value: float | None) -> str:
    return "not measured" if value is None else "0" if value == 0 else f"{value:.2g}"


def caption(found: Results) -> str:
    """Tell what is drawn, with the counts of states.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> caption(StoredResults.read("jacobians").results).startswith("State-to-state Jacobian")
        True
    """
    settings, measured = found["settings"], _measured(found)
    verdicts = [f"{group_label(group['settings'])}: {_finding(run['theorem1'])}" for group, run in measured]
    sizes = {run["shown"]["size"] for _, run in measured if run["shown"] is not None}
    cell = max(sizes, default=found["cells"]) // found["cells"]
    return (
        "State-to-state Jacobian ∂h'/∂h of models trained on parity, in float64, at the visited state of "
        f"median off-diagonal mass: root mean square over cells of {cell} × {cell} entries, and single "
        "entries of its corner, in decimal logarithms of their absolute value. Both conclusions of Theorem "
        "1, "
        f"each relative to the Frobenius norm of ∂h'/∂h, at states of {settings['sequences']} "
        f"sequences of {settings['length']} tokens (data seed {settings['seed']}). Verdicts: "
        f"{'; '.join(verdicts)}."
    )


def _finding(theorem1: Mapping[str, Any]) -> str:
    parts = [f"{verdict} at {count} states" for verdict, count in theorem1["counts"].items() if count]
    mass = _short(theorem1["off_diagonal_mass"]["median"])
    return f"{', '.join(parts)}, median off-diagonal mass {mass}"


def judge(found: Results) -> Verdict:
    """Judge Theorem 1: implicit transitions are non-linear and non-diagonal, explicit ones are not.

    Reproduced if its conclusions hold at every visited state of the implicit run and at none of the explicit
    one, not reproduced if they hold at no state of the implicit one; partly otherwise.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    counts = {
        model_label(group["settings"]["model"]): (
            run["theorem1"]["counts"]["holds"],
            run["theorem1"]["states"],
        )
        for group, run in _measured(found)
    }
    because = f"states at which its conclusions hold: {shares(counts) or 'no runs'}"
    holds, states = counts.get(model_label("implicit-mamba2"), (0, 0))
    if holds == 0:
        return Verdict("not reproduced", because)
    complete = holds == states and counts.get(model_label("mamba2"), (0, 0))[0] == 0
    return Verdict("reproduced" if complete else "partly", because)


FIGURE = PaperFigure(
    claim=Claim(
        "Theorem 1: the state-to-state transition of an implicit SSM is non-linear and non-diagonal",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    title="State-to-state Jacobians, explicit and implicit",
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
