"""The figure of `analysis.jacobian`: one matrix, its blocks, its spectrum, and every measured state."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray
from torch import Tensor

from analysis.framework.figures import (
    SMALLEST_TEXT,
    TEXT_WIDTH,
    legend_below,
    log_axis,
    new_panels,
    power_of_ten,
    styled,
)
from analysis.framework.palette import GREY, QUANTITY_LOOKS
from analysis.jacobian.block_structure import BlockStructure, StateJacobian
from analysis.jacobian.measurement import JacobianAnalysis, Spectrum
from automata.drawing import COLORS
from theory.fixed_point import ERROR_MARGIN

PIXELS = 256
"""Cells along a side of the heat map; a larger matrix is averaged down to them."""
DECADES = 6
"""Range of the colours: below the largest entry by more than this is drawn as the smallest."""


def draw(found: JacobianAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw what `analysis.jacobian.measurement.analyse` returned.

    Example:
        >>> from pathlib import Path
        >>> from analysis.jacobian.measurement import analyse
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "mamba2", d_model=4, head_size=4, d_state=2), make_task("parity")
        >>> run = Run(Path("runs/explicit"), config, initial_model(config, task), task, [])
        >>> [axes.get_xlabel() for axes in draw(analyse(run, states=4, length=8)).axes[:2]]
        ['state before the token', 'source']
    """
    with styled():
        figure, (heat, masses, spectrum, states) = new_panels(
            width, 4, f"{found.run.title}\n{found.sentence}", height=2.9, columns=2
        )
        if found.shown is None or found.blocks is None:
            for axes in (heat, masses, spectrum):
                _say(axes, "no visited state has a fixed point\nat which a Jacobian could be measured")
        else:
            draw_matrix(heat, found.shown, f"|∂s'/∂s| at\n{next(iter(found.spectra))}")
            _draw_masses(masses, found.blocks)
            draw_spectra(spectrum, found.spectra)
        _draw_states(states, found)
        return figure


def draw_matrix(axes: Axes, jacobian: StateJacobian, title: str) -> None:
    """Draw the absolute entries of a Jacobian in logarithmic colours, its blocks outlined.

    Example:
        >>> import torch
        >>> from analysis.jacobian.block_structure import Block
        >>> with styled():
        ...     axes = Figure((3, 3)).subplots()
        ...     jacobian = StateJacobian(torch.eye(4), (Block("h", "state", 0, 4),), has_windows=False)
        ...     draw_matrix(axes, jacobian, "identity")
        >>> axes.images[0].get_array().shape
        (4, 4)
    """
    image, cell = averaged(jacobian.matrix)
    size = len(jacobian.matrix)
    largest = image.max() or 1.0
    picture = axes.imshow(
        np.maximum(image, largest * 10.0**-DECADES),
        norm=LogNorm(largest * 10.0**-DECADES, largest),
        cmap="magma",
        extent=(0, size, size, 0),
        interpolation="nearest",
    )
    if axes.figure is not None:
        what = f"RMS over {cell}×{cell} entries" if cell > 1 else "absolute value"
        bar = axes.figure.colorbar(
            picture,
            cax=axes.inset_axes((1.04, 0, 0.05, 1)),
            label=what,
            ticks=LogLocator(numticks=6),
            format=FuncFormatter(power_of_ten),
        )
        bar.ax.yaxis.set_minor_locator(NullLocator())
    for block in jacobian.blocks[1:]:
        for line in (axes.axhline, axes.axvline):
            line(block.start, color="white", linewidth=1.2 if block.kind == "window" else 0.5, alpha=0.7)
    axes.set(title=title, xlabel="state before the token", ylabel="state after the token")
    axes.set_xticks(*_block_ticks(jacobian), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(*_block_ticks(jacobian))
    axes.tick_params(length=0)
    axes.grid(visible=False)


def draw_spectra(axes: Axes, spectra: dict[str, Spectrum]) -> None:
    r"""Draw the eigenvalues of several states in the complex plane with the unit circle.

    Example:
        >>> import torch
        >>> with styled():
        ...     axes = Figure((3, 3)).subplots()
        ...     draw_spectra(axes, {"token 0": Spectrum.of(torch.eye(2))})
        >>> axes.get_title().split("\n")
        ["spectrum of ∂h'/∂h", '(all 2 eigenvalues)']
    """
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 361))
    axes.plot(circle.real, circle.imag, color=GREY, linewidth=0.8)
    for (label, spectrum), color, marker in zip(spectra.items(), COLORS, "osD^v<>", strict=False):
        values = spectrum.values
        axes.plot(values.real, values.imag, marker, color=color, alpha=0.6, markeredgewidth=0, label=label)
    first = next(iter(spectra.values()))
    which = "all" if first.complete else "the leading"
    axes.set(
        title=f"spectrum of ∂h'/∂h\n({which} {len(first.values)} eigenvalues)",
        xlabel="real part",
        ylabel="imaginary part",
    )
    axes.set_aspect("equal", adjustable="datalim")
    legend_below(axes)


def averaged(matrix: Tensor) -> tuple[NDArray[np.float64], int]:
    """Return the absolute entries, averaged down to at most `PIXELS` a side, and the side of a cell.

    Example:
        >>> import torch
        >>> image, cell = averaged(torch.full((512, 512), 3.0))
        >>> image.shape, cell, float(image[0, 0])
        ((256, 256), 2, 3.0)
    """
    size = len(matrix)
    cell = -(-size // PIXELS)
    count = -(-size // cell)
    sums = np.zeros((count, count))
    squares = matrix.detach().numpy().astype(np.float64) ** 2
    starts = np.arange(0, size, cell)
    sums = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    widths = np.minimum(cell, size - starts)
    return np.sqrt(sums / np.outer(widths, widths)), cell


def _draw_masses(axes: Axes, blocks: BlockStructure) -> None:
    """The masses as a table of numbers, which says more than colours do."""
    axes.imshow(np.sqrt(blocks.masses), cmap="Blues", vmin=0, vmax=1.4)
    if len(blocks.blocks) <= 8:
        for (row, column), mass in np.ndenumerate(blocks.masses):
            text = "0" if mass == 0 else f"{mass:.2f}" if mass >= 0.01 else f"{mass:.0e}".replace("e-0", "e-")
            axes.text(column, row, text, ha="center", va="center", fontsize=SMALLEST_TEXT)
    ticks = range(len(blocks.blocks))
    axes.set_xticks(ticks, blocks.blocks, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(ticks, blocks.blocks)
    axes.set(
        title=f"‖block‖ / ‖J‖ (Frobenius),\nover {blocks.states} states", xlabel="source", ylabel="output"
    )
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _draw_states(axes: Axes, found: JacobianAnalysis) -> None:
    """Off-diagonal mass and nonlinearity of every state beside what they have to exceed."""
    layers = [layer for check in found.report.checks for layer in check.layers]
    if not layers:
        _say(axes, "no state measured")
        return
    columns = (
        (
            "off-diagonal mass",
            [(layer.off_diagonal_mass, layer.off_diagonal_error) for layer in layers],
        ),
        ("nonlinearity", [(layer.nonlinearity, layer.nonlinearity_error) for layer in layers]),
    )
    floor = np.finfo(np.float64).eps / 10
    for label, pairs in columns:
        look = QUANTITY_LOOKS[label]
        ordered = sorted(
            (max(value, floor), ERROR_MARGIN * error) for value, error in pairs if value == value
        )
        if not ordered:
            continue
        values, thresholds = np.array(ordered).T
        places = np.arange(1, len(values) + 1)
        axes.plot(places, values, look.marker, color=look.color, label=label)
        axes.plot(
            places,
            thresholds,
            "_",
            color=look.color,
            alpha=0.6,
            label=f"its threshold, {ERROR_MARGIN:.0f} × error",
        )
    axes.set(
        title="conclusions at every state\nwith a fixed point",
        xlabel="states, sorted by the measured value",
        ylabel="relative to ‖∂h'/∂h‖",
    )
    log_axis(axes)
    legend_below(axes)


def caption(found: JacobianAnalysis) -> str:
    """Tell what is drawn, and the finding.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.jacobian.measurement import analyse
        >>> caption(analyse(load_run("parity"), states=2, length=4)).split(":")[0]
        'State-to-state Jacobians at 2 visited states of 16 sequences of 4 tokens (data seed 0), in float64'
    """
    settings, report = found.settings, found.report
    return (
        f"State-to-state Jacobians at {len(report.checks)} visited states of {settings.sequences} sequences "
        "of "
        f"{settings.length} tokens (data seed {settings.seed}), in float64: {found.sentence}. Heat map: the "
        "whole "
        "state s, windows included, at the state of median off-diagonal mass. Blocks: shares of the "
        "Frobenius norm. "
        f"Spectrum: eigenvalues at {len(found.spectra)} states, with the unit circle. Off-diagonal mass and "
        f"nonlinearity are relative to ‖∂h'/∂h‖, each with its threshold of {ERROR_MARGIN:.0f} times the "
        "measured "
        "error; a zero is drawn at 2e-17."
    )


def _block_ticks(jacobian: StateJacobian) -> tuple[list[float], list[str]]:
    return (
        [(block.start + block.stop) / 2 for block in jacobian.blocks],
        [block.label for block in jacobian.blocks],
    )


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axes.transAxes)
    axes.set_axis_off()
