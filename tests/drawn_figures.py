"""What a reader of a figure relies on, measured on the drawn page: sizes, overlaps, and what covers what."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox, BboxBase
from numpy.typing import NDArray

WIDTHS = (3.3, 6.75)
"""A column of a page with two, and a whole page."""
SMALLEST = 7.0
"""Points that every text has at least."""
ROUNDING = 1.0
"""Pixels by which a box may be off: the renderer places letters on whole pixels."""
SUM_ORDER = 1e-12
"""Means are sums of the same numbers in another order."""


def panel(figure: Figure, title: str) -> Axes:
    """The one panel whose title begins like that."""
    (axes,) = [axes for axes in figure.axes if axes.get_title().startswith(title)]
    return axes


def faults(figure: Figure, width: float) -> list[str]:
    """What would keep a reader from reading a figure printed at that width; empty if all is well."""
    figure.draw_without_rendering()
    scale = width / figure.get_size_inches()[0]
    found = [] if abs(scale - 1) < 1e-9 else [f"is {figure.get_size_inches()[0]} inches wide"]
    boxes = [(text, text.get_text(), text.get_window_extent()) for text in texts(figure)]
    for text, words, box in boxes:
        if text.get_fontsize() * scale < SMALLEST - 1e-9:
            found.append(f"{words!r} has {text.get_fontsize() * scale:g} points")
        if "$" in words:
            found.append(f"{words!r} has letters smaller than its size")
        if not within(box, figure.bbox):
            found.append(f"{words!r} leaves the page")
    for (_, one, box), (_, other, further) in combinations(boxes, 2):
        if overlap(box, further):
            found.append(f"{one!r} covers {other!r}")
    for axes in figure.axes:
        numbers = {name: numbers_on(axis) for name, axis in (("x", axes.xaxis), ("y", axes.yaxis))}
        if axes.get_label() == "<colorbar>":  # has numbers along the bar, and none across
            numbers = {"long": max(numbers.values())}
        for name, count in numbers.items():
            if axes.axison and count < 2:
                found.append(f"the {name} axis of {axes.get_title()!r} has fewer than two numbers")
    for legend in legends(figure):
        frame = legend.get_window_extent()
        if not within(frame, figure.bbox):
            found.append("a legend leaves the page")
        for axes in all_axes(figure):
            found += [f"a legend covers {what!r}" for what in covered(axes, frame)]
    return found


def texts(figure: Figure) -> list[Text]:
    """All texts that are seen: ticks outside of their axis are not."""
    shown = [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip()
    ]
    hidden = {
        label
        for axes in all_axes(figure)
        for axis in (axes.xaxis, axes.yaxis)
        for label in axis.findobj(Text)
        if axes.axison is False or label not in drawn_labels(axis)
    }
    return [text for text in shown if text not in hidden]


def all_axes(figure: Figure) -> list[Axes]:
    """The axes and those inside of them, such as colour bars."""
    both = (axes for outer in figure.axes for axes in (outer, *outer.child_axes))
    return [axes for axes in both if isinstance(axes, Axes)]


def drawn_labels(axis: Any) -> set[Text]:
    """The labels of an axis that the renderer gets: those of the ticks in view, and its own."""
    ticks = axis._update_ticks()
    return {label for tick in ticks for label in (tick.label1, tick.label2)} | {axis.label, axis.offsetText}


def numbers_on(axis: Any) -> int:
    """How many of the ticks in view have a number."""
    return sum(bool(tick.label1.get_text()) for tick in axis._update_ticks())


def within(inner: BboxBase, outer: BboxBase) -> bool:
    return (
        inner.x0 >= outer.x0 - ROUNDING
        and inner.y0 >= outer.y0 - ROUNDING
        and inner.x1 <= outer.x1 + ROUNDING
        and inner.y1 <= outer.y1 + ROUNDING
    )


def overlap(one: Bbox, other: Bbox) -> bool:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > ROUNDING and height > ROUNDING


def legends(figure: Figure) -> list[Any]:
    return [legend for axes in figure.axes if (legend := axes.get_legend()) is not None] + list(
        figure.legends
    )


def covered(axes: Axes, frame: Bbox) -> Iterator[str]:
    """What of the data of axes lies within a box on the page."""
    if not overlap(axes.get_window_extent(), frame):
        return
    for artist in data_artists(axes):
        if touches(artist, frame, axes):
            yield str(artist.get_label())


def data_artists(axes: Axes) -> list[Artist]:
    background = {axes.patch}
    children = [child for child in axes.get_children() if child not in background and child.get_visible()]
    return [child for child in children if isinstance(child, Line2D | Collection | Patch | AxesImage)]


def touches(artist: Artist, frame: Bbox, axes: Axes) -> bool:
    """Whether any point of a line, any marker, or any part of an area lies in a box."""
    if isinstance(artist, PathCollection):
        places = axes.transData.transform(np.asarray(artist.get_offsets()))
        return any(frame.contains(x, y) for x, y in places)
    if isinstance(artist, Line2D):
        points = artist.get_transform().transform(artist.get_xydata())
        return any(frame.contains(x, y) for x, y in between(points))
    if isinstance(artist, PolyCollection):
        paths = [path.transformed(artist.get_transform()) for path in artist.get_paths()]
        return any(path.intersects_bbox(frame, filled=True) for path in paths)
    if isinstance(artist, Rectangle | Patch | AxesImage):
        return overlap(artist.get_window_extent(), frame)
    return False


def between(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points along a line, so close that none of its parts crosses a legend unseen."""
    finite = points[np.isfinite(points).all(axis=1)]
    if len(finite) < 2:
        return finite
    shares = np.linspace(0, 1, 65)[:, None, None]
    return np.asarray((finite[:-1] + shares * np.diff(finite, axis=0)).reshape(-1, 2))


def labelled(axes: Axes) -> dict[str, NDArray[np.float64]]:
    """The y-data of every line that the legend names, by the text in the legend.

    The legend's own handle is used: the line is found by the look that a reader goes by, colour, dashes and
    marker, not by the label that it carries.
    """
    legend = axes.get_legend()
    assert legend is not None
    found: dict[str, NDArray[np.float64]] = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if not isinstance(handle, Line2D):
            continue
        same = [line for line in axes.lines if look(line) == look(handle)]
        assert same, f"no line looks like {text.get_text()!r}"
        found[text.get_text()] = np.asarray(same[-1].get_ydata(), dtype=float)
    return found


def look(line: Line2D) -> tuple[Any, ...]:
    """What tells a line from others: colour, dashes relative to its breadth, marker, breadth."""
    offset, dashes = line._unscaled_dash_pattern  # type: ignore[attr-defined]
    return str(line.get_color()), offset, tuple(dashes or ()), line.get_marker(), line.get_linewidth()
