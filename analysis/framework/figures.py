"""How figures look and how they are stored: the same style, colours and deterministic files everywhere.

Figures are made without pyplot, so that no backend or default of the caller is touched.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from implicit.runs.files import write_bytes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito (2008), which colour-blind readers can tell apart; yellow left out."""

MODEL_COLORS = {"implicit-mamba2": COLORS[0], "mamba2": COLORS[1], "lstm": COLORS[2]}
"""A model has the same colour in every figure."""

GREY = "#777777"
RED = "#C00000"
"""What a reader must not miss."""

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "figure.dpi": 100,
    "figure.titlesize": 10.5,
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.framealpha": 0.9,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this package, leaving the caller's settings as they were.

    Example:
        >>> before = mpl.rcParams["font.size"]
        >>> with styled():
        ...     float(mpl.rcParams["font.size"])
        9.0
        >>> mpl.rcParams["font.size"] == before
        True
    """
    with mpl.rc_context(STYLE):
        yield


def new_figure(width: float, height: float, title: str) -> Figure:
    """Return an empty figure with a title; to be filled within `styled`.

    Args:
        width: in inches.
        height: in inches.
        title: what is shown, with the run, its seed and the number of sequences or states.

    Example:
        >>> with styled():
        ...     new_figure(4, 3, "parity, seed 0").get_size_inches()
        array([4., 3.])
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    return figure


def save_figure(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as PNG and as PDF, without dates, so that equal results give equal files.

    Returns:
        The paths of the PNG and the PDF.

    Raises:
        OSError: if the folder cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, styled():
        ...     png, pdf = save_figure(new_figure(2, 1, "title"), Path(folder), "figure")
        ...     png.read_bytes()[1:4], pdf.read_bytes()[:4]
        (b'PNG', b'%PDF')
    """
    paths = folder / f"{name}.png", folder / f"{name}.pdf"
    with styled():
        for path, metadata in zip(
            paths, ({"Software": None}, {"CreationDate": None, "Creator": None}), strict=True
        ):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=path.suffix[1:], metadata=metadata)
            write_bytes(path, buffer.getvalue())
    return paths


def mark_quantiles(
    axes: Axes, x: NDArray[np.float64], values: NDArray[np.float64], color: str, label: str
) -> None:
    """Draw the median of every column with bands of the middle 50% and 98%.

    Args:
        axes: where to draw.
        x: ``[columns]``.
        values: ``[rows, columns]``.
        color: of line and bands.
        label: of the line, in the legend.

    Example:
        >>> with styled():
        ...     axes = new_figure(2, 2, "").subplots()
        ...     mark_quantiles(axes, np.arange(3.0), np.ones((5, 3)), COLORS[0], "ones")
        >>> axes.get_lines()[0].get_ydata()
        array([1., 1., 1.])
    """
    low, quarter, median, three_quarters, high = np.quantile(values, [0.01, 0.25, 0.5, 0.75, 0.99], axis=0)
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.fill_between(x, quarter, three_quarters, color=color, alpha=0.3, linewidth=0)
    axes.plot(x, median, color=color, label=label)


def powers_of_two(axes: Axes, lengths: Sequence[int]) -> None:
    """Give an axis of sequence lengths a logarithmic scale with the lengths themselves as ticks.

    Example:
        >>> with styled():
        ...     axes = new_figure(2, 2, "").subplots()
        ...     powers_of_two(axes, [32, 64])
        >>> [text.get_text() for text in axes.get_xticklabels()]
        ['32', '64']
    """
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(lengths), [str(length) for length in lengths])
    axes.minorticks_off()
