"""What a figure of published numbers is: tables of others and their drawing, marked as such."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from analysis.framework.figures import STYLE, TEXT_WIDTH, styled, wrapped
from analysis.framework.palette import RED
from paper_figures.figures.claim import AS_PUBLISHED, Claim
from paper_figures.figures.shown import Shown
from paper_figures.published_tables import PublishedTable, read_table
from paper_figures.stored_results import RESULTS

MARK = "Published, not measured here"
"""Stands in red above every picture of this kind, and begins its caption."""
_MARK_HEIGHT = 0.2
"""Inches for each of its lines."""
_HOW_READ = {
    "document": "read there",
    "digest": "as a digest of it gives them",
    "secondary": "as somebody else's note gives them",
}

Tables = Mapping[str, PublishedTable]
"""Published tables by name."""


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of numbers that others published: it has no experiment, and there is nothing to rerun.

    Its verdict is always ``published``, and its pictures and captions carry `MARK`, whatever is drawn.

    Attributes:
        name: of the figure and its files.
        title: what it shows, in a line.
        statement: what the numbers are published for, in our words.
        tables: names of the tables that are drawn, as `paper_figures.published_tables` knows them.
        draw: draws them, so many inches wide; called within the style of `analysis.framework.figures`.
        caption: tells what was drawn; mark and sources are added to it.

    Example:
        >>> figure = PublishedFigure(
        ...     name="languages",
        ...     title="Regular languages",
        ...     statement="some models track states",
        ...     tables=("regular_languages",),
        ...     draw=lambda tables, width: Figure((width, 2)),
        ...     caption=lambda tables: f"{len(tables['regular_languages'].rows)} models.",
        ... )
        >>> print(figure.full_caption())
        Published, not measured here. 6 models. Source: Terzić et al. 2025, arXiv 2509.22284 (...).
        >>> print(figure.claim.judge({}))
        published: as its authors print it; nothing was run here
    """

    name: str
    title: str
    statement: str
    tables: tuple[str, ...]
    draw: Callable[[Tables, float], Figure]
    caption: Callable[[Tables], str]

    @property
    def claim(self) -> Claim:
        """The statement with the papers that publish the numbers; nothing that was measured judges it."""
        sources = dict.fromkeys(table.source.cited for table in self._read().values())
        return Claim(self.statement, "; ".join(sources), lambda _: AS_PUBLISHED)

    def full_caption(self) -> str:
        """Return the caption with the mark, and for every table who published it and where it was read."""
        tables = self._read()
        sources = [
            f"{table.source.cited} ({table.source.document}, {table.source.place}; "
            f"{_HOW_READ[table.source.read]})"
            for table in tables.values()
        ]
        several = "s" if len(sources) > 1 else ""
        return f"{MARK}. {self.caption(tables)} Source{several}: {'; '.join(sources)}."

    def picture(self, width: float = TEXT_WIDTH) -> Figure:
        """Draw the tables, so many inches wide, below the mark."""
        with styled():
            figure = self.draw(self._read(), width)
            mark = wrapped(MARK, width, STYLE["figure.titlesize"])
            figure.suptitle(mark, color=RED, fontweight="bold")
            inches, height = figure.get_size_inches()
            figure.set_size_inches(inches, height + _MARK_HEIGHT * (mark.count("\n") + 1))
        return figure

    def shown(self, _results: Path = RESULTS) -> Shown:
        """Return what is shown of it; unlike `PaperFigure.shown` it needs no stored results."""
        return Shown(self.picture, self.full_caption(), AS_PUBLISHED, None)

    def _read(self) -> dict[str, PublishedTable]:
        return {name: read_table(name) for name in self.tables}
