"""How figures look and how they are stored: at paper width, in one style, as deterministic files.

Figures are made without pyplot, so that no backend or default of the caller is touched. They are drawn at the
size at which they are printed, so that a size in points is the size on paper.
"""

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backend_bases import get_registered_canvas_class
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from automata.drawing import COLORS, show_plainly
from automata.errors import InputError
from implicit.runs.files import write_bytes

COLUMN_WIDTH = 3.3
"""Inches of a column of a page with two."""
TEXT_WIDTH = 6.75
"""Inches of a whole page; what figures have unless told otherwise."""
NARROWEST, WIDEST = 3.0, 20.0
"""Inches between which a figure can be read and made."""
SMALLEST_TEXT = 7.0
"""Points; no text of a figure is smaller."""

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.7,
    "figure.dpi": 100,
    "figure.titlesize": 8.5,
    "font.size": 7.5,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.fontsize": SMALLEST_TEXT,
    "legend.title_fontsize": SMALLEST_TEXT,
    "legend.frameon": False,
    "legend.borderaxespad": 0,
    "legend.borderpad": 0.2,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.35,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "xtick.labelsize": SMALLEST_TEXT,
    "xtick.major.width": 0.7,
    "ytick.labelsize": SMALLEST_TEXT,
    "ytick.major.width": 0.7,
}

_LETTER = 0.56
"""Width of a letter of the font, in parts of its size: more than the mean, for titles with many digits."""
_BELOW_LABEL = 31.0
"""Points from an axis to below its label: ticks and their labels 13, the label 10, and gaps."""


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this package, leaving the caller's settings as they were.

    Example:
        >>> before = mpl.rcParams["font.size"]
        >>> with styled():
        ...     float(mpl.rcParams["font.size"])
        7.5
        >>> mpl.rcParams["font.size"] == before
        True
    """
    with mpl.rc_context(STYLE):
        yield


def checked_width(text: str) -> float:
    """Return the width in inches that a flag gives.

    InputError if it is no number, or a figure of that width could not be read.
    """
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not NARROWEST <= width <= WIDEST:
        raise InputError(
            f"width is {text!r}; give inches from {NARROWEST:g} to {WIDEST:g}, such as {COLUMN_WIDTH} for a "
            f"column or {TEXT_WIDTH}"
        )
    return width


def new_figure(width: float, height: float, title: str = "", *, color: str = "black") -> Figure:
    """Return an empty figure with a title; to be filled within `styled`.

    Example:
        >>> with styled():
        ...     new_figure(4, 3, "parity, seed 0").get_size_inches()
        array([4., 3.])
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        text = wrapped(title, width, STYLE["figure.titlesize"])
        show_plainly(figure.suptitle(text, color=color))
    return figure


def new_panels(
    width: float, count: int, title: str = "", *, height: float = 2.3, columns: int = 3, color: str = "black"
) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels side by side, or below each other where the figure is too narrow for that.

    A row is ``height`` inches high, with titles, labels and legends; each of its panels is at least 2 inches
    wide.
    """
    beside = max(1, min(columns, count, int(width / 2)))
    rows = -(-count // beside)
    lines = wrapped(title, width, STYLE["figure.titlesize"]).count("\n") + 1 if title else 0
    figure = new_figure(width, (rows * height or 0.3) + 0.17 * lines, title, color=color)
    if not count:
        return figure, []
    axes = figure.subplots(rows, beside, squeeze=False).ravel().tolist()
    for empty in axes[count:]:
        empty.remove()
    return figure, axes[:count]


def wrapped(text: str, width: float, size: float) -> str:
    r"""Break every line of a text so that it fits.

    Example:
        >>> wrapped("a title of several words", 1.0, 9.0)
        'a title of\nseveral words'
    """
    letters = max(8, int(72 * width / (_LETTER * size)))
    return "\n".join(textwrap.fill(line, letters) for line in text.splitlines())


def legend_below(axes: Axes, *, columns: int = 1, title: str | None = None) -> Legend:
    """Draw the legend below the label of the horizontal axis, where no data can be."""
    root: Any = axes.figure
    place = axes.transAxes + ScaledTranslation(0, -_BELOW_LABEL / 72, root.dpi_scale_trans)
    return axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=place, ncols=columns, title=title
    )


def log_axis(axes: Axes, which: Literal["x", "y"] = "y", *, most: int = 6) -> None:
    """Give an axis a logarithmic scale whose labels have no small exponents: 1e-4.

    The axes hold their data: a short axis gets labels between the powers of ten, ``most`` at the most.
    """
    axes.set(**{f"{which}scale": "log"})
    axis, limits = (axes.yaxis, axes.get_ylim()) if which == "y" else (axes.xaxis, axes.get_xlim())
    low, high = sorted(limits)
    if low <= 0:  # nothing that is drawn has a logarithm
        axes.set(**{f"{which}scale": "linear"})
        return
    decades = math.log10(high / low)
    between = MaxNLocator(most - 1, steps=[1, 2, 5, 10]).tick_values(low, high)
    if decades > 2:
        axis.set_major_locator(LogLocator(numticks=most))
    elif decades > 0.7:
        axis.set_major_locator(LogLocator(subs=_between_powers(low, high, most), numticks=most))
    else:  # too few powers of ten: numbers at equal distances
        axis.set_major_locator(FixedLocator([tick for tick in between if low <= tick <= high]))
    axis.set_major_formatter(FuncFormatter(power_of_ten))
    axis.set_minor_locator(NullLocator())


def _between_powers(low: float, high: float, most: int) -> tuple[float, ...]:
    """The multiples of powers of ten that are labelled: as many as give no more labels than wanted."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1.0, 2.0, 5.0), (1.0, 3.0)):
        if sum(low <= factor * 10.0**power <= high for power in powers for factor in multiples) <= most:
            return multiples
    return (1.0,)


def power_of_ten(value: float, _place: int | None = None) -> str:
    """Return the label of a tick of a logarithmic axis; small and large powers are written out.

    Example:
        >>> power_of_ten(1e-12), power_of_ten(100.0), power_of_ten(0.1), power_of_ten(2.5e5)
        ('1e-12', '100', '0.1', '2.5e5')
    """
    exponent = math.floor(math.log10(value) + 1e-9)
    return f"{value:g}" if -2 <= exponent <= 3 else f"{value / 10.0**exponent:.2g}e{exponent}"


def save_figure(figure: Figure, folder: Path, name: str, caption: str = "") -> tuple[Path, Path]:
    r"""Write a figure as PNG and as PDF, without dates, so that equal results give equal files.

    A caption goes into ``<name>.caption.txt`` beside the picture. The result is the paths of the PNG and the
    PDF. OSError if the folder cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, styled():
        ...     png, pdf = save_figure(new_figure(2, 1, "title"), Path(folder), "figure", "One seed.")
        ...     png.read_bytes()[1:4], pdf.read_bytes()[:4], (Path(folder) / "figure.caption.txt").read_text()
        (b'PNG', b'%PDF', 'One seed.\n')
    """
    paths = folder / f"{name}.png", folder / f"{name}.pdf"
    with styled():
        show_plainly(*figure.findobj(Text))
        canvas, dpi, layout = figure.canvas, figure.dpi, figure.get_layout_engine()
        try:
            write_bytes(paths[0], _printed(figure, "png", {"Software": None}))
            figure.set_layout_engine("none")  # the PDF has the places of the PNG
            write_bytes(paths[1], _printed(figure, "pdf", {"CreationDate": None, "Creator": None}))
        finally:
            figure.set_canvas(canvas)
            figure.dpi = dpi
            figure.set_layout_engine(layout or "none")
    if caption:
        write_bytes(folder / f"{name}.caption.txt", f"{caption}\n".encode())
    return paths


def _printed(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    """Return a figure as a file of this kind; `savefig` would draw it twice, the first time to lay it out."""
    figure.dpi = STYLE["savefig.dpi"]
    canvas, buffer = get_registered_canvas_class(kind)(figure), io.BytesIO()
    getattr(canvas, f"print_{kind}")(buffer, metadata=metadata)
    return buffer.getvalue()


def mark_quantiles(
    axes: Axes, x: NDArray[np.float64], values: NDArray[np.float64], color: str, label: str
) -> None:
    """Draw the median of every column with bands of the middle 50% and 98%.

    Values are ``[rows, columns]``.
    """
    low, quarter, median, three_quarters, high = np.quantile(values, [0.01, 0.25, 0.5, 0.75, 0.99], axis=0)
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.fill_between(x, quarter, three_quarters, color=color, alpha=0.3, linewidth=0)
    axes.plot(x, median, color=color, label=label)


def powers_of_two(axes: Axes, lengths: Sequence[int]) -> None:
    """Give an axis of sequence lengths a logarithmic scale with the lengths themselves as ticks.

    Example:
        >>> with styled():
        ...     axes = new_figure(2, 2).subplots()
        ...     powers_of_two(axes, [32, 64])
        >>> [text.get_text() for text in axes.get_xticklabels()]
        ['32', '64']
    """
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(lengths), [str(length) for length in lengths])
    axes.minorticks_off()
