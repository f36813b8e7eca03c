"""Which texts of a figure nobody can read."""

from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

SMALLEST = 7.0
"""Points that every text has at least."""


def unreadable(figure: Figure) -> list[tuple[str, ...]]:
    """Return texts that are too small or begin outside of the figure, and pairs that cover each other."""
    figure.draw_without_rendering()
    # the renderer places letters on whole pixels
    boxes = [(text, text.get_window_extent().padded(-1)) for text in _texts(figure)]
    alone = [
        text
        for text, box in boxes
        if float(text.get_fontsize()) < SMALLEST or not figure.bbox.padded(2).contains(box.x0, box.y0)
    ]
    pairs = [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]
    return [tuple(text.get_text() for text in texts) for texts in [*((text,) for text in alone), *pairs]]


def _texts(figure: Figure) -> list[Text]:
    """All texts of a figure that the renderer gets; labels of ticks out of view it does not."""
    hidden: set[Text] = set()
    for outer in figure.axes:
        for axes in (outer, *outer.child_axes):
            both: list[Any] = [getattr(axes, name) for name in ("xaxis", "yaxis")]
            for axis in both:
                ticks = axis._update_ticks() if getattr(axes, "axison", True) else []
                drawn_labels = {axis.label, axis.offsetText, *(tick.label1 for tick in ticks)}
                hidden |= {label for label in axis.findobj(Text) if label not in drawn_labels}
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text not in hidden]
    return [text for text in found if text.get_visible() and text.get_text().strip()]
