"""Names in drawings and figures as they are: no formulas, no hidden labels."""

from typing import TYPE_CHECKING

from automata.errors import printable_lines

if TYPE_CHECKING:
    from matplotlib.text import Text


def show_plainly(*texts: "Text") -> None:
    r"""Let texts be drawn letter by letter: ``$`` begins no formula, and control characters are escaped.

    Matplotlib's own labels of powers, which are formulas, stay.
    """
    for text in texts:
        given = text.get_text()
        if given.strip("\n") and not given.startswith("$\\mathdefault{"):  # of ticks, at first empty
            text.set_parse_math(False)
            text.set_usetex(False)
            text.set_text(printable_lines(given))


def in_legend(name: object) -> str:
    """Return the label of a name: Matplotlib leaves what begins with ``_`` out of legends."""
    return f" {name}" if str(name).startswith("_") else str(name)
