"""State-to-state Jacobians of explicit and implicit Mamba-2 on parity, with the verdict of Theorem 1."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis.framework.arrays import FloatArray
from analysis.framework.figures import log_axis, power_of_ten
from analysis.framework.palette import GREY, model_label
from analysis.jacobian import JacobianSettings, analyse
from analysis.jacobian.block_structure import averaged
from implicit.runs.loading import Run
from paper_figures import figure as pf
from theory import TransitionKind, Verdict
from theory.fixed_point import ERROR_MARGIN
from theory.theorem1.report import headline

CELLS = 128  # cells along a side of the whole block
ZOOM = 24  # entries along a side of the enlarged corner


def jacobians(run: Run, settings: JacobianSettings) -> dict[str, Any]:
    """Check Theorem 1 at visited states of a run, and keep one Jacobian."""
    found = analyse(run, settings)
    layers = [layer for check in found.report.checks for layer in check.layers]
    shown: dict[str, Any] | None = None
    if found.shown is not None:
        block = found.shown.state_block.numpy()
        shown = {
            "state": next(iter(found.spectra)),
            "size": len(block),
            "heads": [entry.start for entry in found.shown.blocks if entry.kind == "state"],
            "whole": logarithms(averaged(block, CELLS)[0]),
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


def logarithms(magnitudes: FloatArray) -> FloatArray:
    """Return decimal logarithms to two digits, all that colours can show; minus infinity for a zero."""
    with np.errstate(divide="ignore"):
        rounded: FloatArray = np.log10(magnitudes).round(2)
    return rounded


DECADES = 6
"""Range of the colours below the largest entry; smaller entries, but not zeros, share the lightest colour."""


def _entries(logarithms: list[list[float | None]]) -> FloatArray:
    """Return the magnitudes of stored logarithms; JSON holds None for that of zero."""
    return np.array([[0.0 if entry is None else 10.0**entry for entry in row] for row in logarithms])


def _colors(rows: pf.Rows) -> LogNorm:
    shown = [run.values["shown"] for row in rows for run in row.runs]
    largest = max(_entries(one[part]).max() for one in shown for part in ("whole", "corner"))
    return LogNorm(largest * 10.0**-DECADES, largest)


def _block(part: str, model: str) -> Callable[[Axes, pf.Rows], None]:
    def draw(axes: Axes, rows: pf.Rows) -> None:
        (row,) = (row for row in rows if row.settings["model"] == model)
        shown, colors = row.runs[0].values["shown"], _colors(rows)
        magnitudes = _entries(shown[part])
        size = shown["size"] if part == "whole" else len(magnitudes)
        image = np.where(magnitudes > 0, np.maximum(magnitudes, colors.vmin or 0), np.nan)  # zeros in grey
        axes.set_facecolor("#D0D0D0")
        axes.imshow(image, norm=colors, cmap="magma_r", extent=(0, size, size, 0), interpolation="nearest")
        axes.grid(visible=False)
        if part == "corner":
            axes.set(title=f"first {size} × {size} entries", xlabel="entry of h", ylabel="entry of h'")
            return
        ends = [*shown["heads"], size]
        middles, names = [sum(pair) / 2 for pair in pairwise(ends)], [*map(str, range(len(ends) - 1))]
        axes.set_xticks(middles, names)
        axes.set_yticks(middles, names)
        axes.set(title=row.label, xlabel="head of h, before", ylabel="head of h', after")
        bar = axes.figure.colorbar(
            ScalarMappable(colors, "magma_r"), ax=axes, label="|entry| (grey: 0)", location="bottom",
            ticks=LogLocator(numticks=4), format=FuncFormatter(power_of_ten),
        )  # fmt: skip
        bar.ax.xaxis.set_minor_locator(NullLocator())

    return draw


def _conclusions(quantity: str, error: str, title: str) -> Callable[[Axes, pf.Rows], None]:
    def draw(axes: Axes, rows: pf.Rows) -> None:
        """Draw a quantity at every state, sorted, with a tick at what it has to exceed."""
        floor = np.finfo(np.float64).eps / 10
        for row in rows:
            values = row.runs[0].values
            pairs = sorted(
                (max(value, floor), ERROR_MARGIN * bound)
                for value, bound in zip(values[quantity], values[error], strict=True)
                if value is not None
            )
            ordered, thresholds = np.array(pairs).T
            places = np.arange(1, len(pairs) + 1)
            axes.plot(places, ordered, row.look.marker, color=row.look.color, markersize=2.5, label=row.label)
            axes.plot(
                places, thresholds, "_", color=row.look.color, markersize=3, alpha=0.6,
                label=f"{row.label}: {ERROR_MARGIN:.0f} × error",
            )  # fmt: skip
            if 0 in values[quantity]:
                axes.annotate("exactly 0", (1, floor), (0, 4), textcoords="offset points", color=GREY)
        log_axis(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(low, 10 * high)
        axes.set(title=title, xlabel="visited states, sorted", ylabel="relative to ‖∂h'/∂h‖")

    return draw


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Reproduced if the conclusions hold at all states of the implicit run, and the control is linear."""
    found = {row.label: row.runs[0].values["theorem1"] for row in rows}
    control, own = map(model_label, MODELS)
    kind = TransitionKind(found[control]["kind"])
    held, states = found[own]["counts"]["holds"], found[own]["states"]
    said = headline(kind, Verdict.DOES_NOT_APPLY, has_latent=False)
    because = f"its conclusions hold at {held} of {states} states of {own}; {control} is {said}"
    return pf.verdict(held, states, because, also=kind is TransitionKind.DIAGONAL_LINEAR)


MODELS = ("mamba2", "implicit-mamba2")
FIGURE = pf.Figure(
    title="State-to-state Jacobians, explicit and implicit",
    section="Theorem 1",
    claim=pf.Claim(
        "Theorem 1: the state-to-state transition of an implicit SSM is non-linear and non-diagonal",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=(pf.Grid({"model": list(MODELS), "seed": [0]}, {"task": "parity"}),),
    measure=(
        pf.Measurement("jacobians", jacobians, JacobianSettings(states=64, sequences=16, length=64, seed=0)),
    ),
    label=lambda settings: model_label(settings["model"]),
    panels=[
        *(pf.Drawn(_block("whole", model)) for model in MODELS),
        pf.Drawn(_conclusions("off_diagonal_mass", "off_diagonal_error", "off-diagonal mass")),
        *(pf.Drawn(_block("corner", model)) for model in MODELS),
        pf.Drawn(_conclusions("nonlinearity", "nonlinearity_error", "nonlinearity")),
    ],
    layout=pf.Layout(columns=(3, 2), height=(4.2, 6.2), share=("none", "none"), legend=(4, 1)),
)
