"""Where labels of a drawing stand, and which of them overlap, measured on the page."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from automata.checks import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Point = NDArray[np.float64]

STATE = "state"
"""Marks the text inside the circle of a state."""
SYMBOL = "symbol"
"""Marks the text beside an arrow."""
GAP = 0.7
"""Points that are free around a label."""


def show_plainly(*texts: "Text") -> None:
    r"""Let texts be drawn letter by letter: ``$`` begins no formula, and control characters are escaped.

    Matplotlib's own labels of powers, which are formulas, stay.

    Example:
        >>> from matplotlib.figure import Figure
        >>> text = Figure().text(0, 0, "cost in $ or $\\frac{x$")
        >>> show_plainly(text)
        >>> text.get_parse_math()
        False
    """
    for text in texts:
        lines = text.get_text().split("\n")
        if any(lines) and not lines[0].startswith("$\\mathdefault{"):  # labels of ticks are empty at first
            text.set_parse_math(False)
            text.set_usetex(False)
            text.set_text("\n".join(map(printable, lines)))


def in_legend(name: object) -> str:
    """Return the label of a name: Matplotlib leaves what begins with ``_`` out of legends.

    Example:
        >>> in_legend("_base")
        ' _base'
    """
    return f" {name}" if str(name).startswith("_") else str(name)


def place_labels(axes: "Axes", labels: Sequence[tuple[Sequence[tuple[Point, Point]], str, str]]) -> None:
    """Write labels, each beside its arrow where it covers least of circles, arrows and earlier labels.

    Args:
        axes: with all that is drawn but the labels; the figure is laid out to measure it.
        labels: for each the spots from which to choose, the best first, its text and its colour. A spot is a
            point of the arrow and the direction away from it.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure(figsize=(2, 2)).subplots()
        >>> spots = [(np.array([0.5, 0.5]), np.array([0.0, side])) for side in (1.0, -1.0)]
        >>> place_labels(axes, [(spots, "a", "black"), (spots, "b", "black")])
        >>> [bool(text.get_position()[1] > 0.5) for text in axes.texts], overlapping_labels(axes)
        ([True, False], [])
    """
    from matplotlib.transforms import Bbox

    taken, arrows = _circles(_laid_out(axes)), _arrows(axes)
    pixel = axes.transData.transform([[0.0, 0.0], [1.0, 0.0]])
    unit = float(pixel[1, 0] - pixel[0, 0])
    for spots, content, colour in labels:
        text = axes.text(
            0, 0, content, ha="center", va="center", fontsize=8, color=colour, zorder=5, gid=SYMBOL
        )
        show_plainly(text)
        box = text.get_window_extent()
        half = np.array([box.width, box.height]) / 2 / unit
        best, least = spots[0][0], np.inf
        for rank, (point, outwards) in enumerate(spots):
            # so far that the nearest side of the box just leaves the arrow
            place = point + outwards * (abs(outwards) @ half + 2 * GAP * axes.figure.dpi / 72 / unit)
            where = Bbox.from_bounds(*(place - half), *(2 * half))
            area = where.width * where.height
            covered = sum(_covered(where, other) for other in taken) + 1e-4 * rank * area
            covered += 0.5 * area * sum(path.intersects_bbox(where, filled=False) for path in arrows)
            if covered < least:
                best, least = place, covered
        text.set_position(tuple(best))
        taken.append(Bbox.from_bounds(*(best - half), *(2 * half)))


def overlapping_labels(axes: "Axes") -> list[tuple[str, str]]:
    """Return pairs of texts that cover each other, and texts on an arrow or outside of circle, cell or axes.

    Args:
        axes: of an automaton, a Cayley graph or a transition table; the figure is laid out to measure it.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure(figsize=(2, 2)).subplots()
        >>> for place, name in ((0.5, "one"), (0.52, "other"), (0.9, "third")):
        ...     _ = axes.text(0.3, place, name)
        >>> overlapping_labels(axes)
        [('one', 'other')]
    """
    _laid_out(axes)
    gap = GAP * axes.figure.dpi / 72
    texts = [text for text in axes.texts if text.get_text()]
    boxes = [text.get_window_extent().padded(gap / 2) for text in texts]
    pairs = [
        (one.get_text(), other.get_text())
        for (one, box), (other, further) in combinations(list(zip(texts, boxes, strict=True)), 2)
        if box.overlaps(further)
    ]
    circles = [axes.transData.transform_bbox(circle) for circle in _circles(axes)]
    arrows = [path.transformed(axes.transData) for path in _arrows(axes)]
    for text, box in zip(texts, boxes, strict=True):
        if text.get_gid() == SYMBOL and any(
            path.intersects_bbox(box.padded(-0.3 * box.height), filled=False) for path in arrows
        ):
            pairs.append((text.get_text(), "an arrow"))
        inside = text.get_gid() == STATE
        for circle in circles:
            if inside and _covered(box, circle) and box.width > circle.width:
                pairs.append((text.get_text(), "its circle"))
            elif not inside and _covers_disc(box, circle):
                pairs.append((text.get_text(), "a circle"))
        if not inside and not _within(box, axes.get_window_extent().padded(4 * gap)):
            pairs.append((text.get_text(), "the edge"))
    for table in axes.tables:
        pairs += [
            (cell.get_text().get_text(), "its cell")
            for cell in table.get_celld().values()
            if not _within(_text_box(cell.get_text()), cell.get_window_extent())
        ]
    return pairs


def _laid_out(axes: "Axes") -> "Axes":
    """Give the axes the space that they will have, which costs less than to draw the figure."""
    root: Any = axes.figure
    engine = root.figure.get_layout_engine()
    if axes.tables:  # cells get their places when they are drawn
        root.figure.draw_without_rendering()
    elif engine is not None:
        engine.execute(root.figure)
    axes.apply_aspect()
    return axes


def _circles(axes: "Axes") -> "list[Bbox]":
    """The boxes of all circles, in the units of the axes."""
    from matplotlib.patches import Circle
    from matplotlib.transforms import Bbox

    return [
        Bbox.from_extents(
            *(np.array(patch.center) - patch.get_radius()), *(np.array(patch.center) + patch.get_radius())
        )
        for patch in axes.patches
        if isinstance(patch, Circle)
    ]


def _arrows(axes: "Axes") -> "list[Path]":
    """The lines of all arrows, in the units of the axes."""
    from matplotlib.patches import FancyArrowPatch

    return [patch.get_path() for patch in axes.patches if isinstance(patch, FancyArrowPatch)]


def _text_box(text: "Text") -> "Bbox":
    return text.get_window_extent()


def _covered(one: "Bbox", other: "Bbox") -> float:
    """The area that two boxes share."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(0.0, width) * max(0.0, height)


def _covers_disc(box: "Bbox", circle: "Bbox") -> bool:
    """Whether a box reaches into the disc inside another box."""
    centre = np.array([(circle.x0 + circle.x1) / 2, (circle.y0 + circle.y1) / 2])
    nearest = np.clip(centre, [box.x0, box.y0], [box.x1, box.y1])
    return bool(np.linalg.norm(nearest - centre) < circle.width / 2)


def _within(box: "Bbox", outer: "Bbox") -> bool:
    return box.x0 >= outer.x0 and box.x1 <= outer.x1 and box.y0 >= outer.y0 and box.y1 <= outer.y1
