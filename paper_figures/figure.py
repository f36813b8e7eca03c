"""A figure of the paper is data: runs, what is measured of them, panels, a claim, and a caption beside it.

``figures/NAME.py`` declares ``FIGURE``, ``figures/NAME.md`` its caption, ``results/NAME.json`` the numbers. A
declaration finds here all that it is made of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib import figure as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.framework.figures import TEXT_WIDTH, new_figure, styled
from analysis.framework.palette import RED, Look
from paper_figures.claims import (
    CODE_AND_LINEAR_RNNS,
    IMPLICIT_ARE_RNNS,
    OURS,
    SLIDES,
    Claim,
    ShareOfRuns,
    Verdict,
    as_published,
    counts,
    graded,
    verdict,
)
from paper_figures.experiments.grid import Experiment, Grid, Measurement, Point
from paper_figures.experiments.runner import carry_out
from paper_figures.experiments.store import Outcome, Store
from paper_figures.measurements.lengths import AGREEMENT, accuracy_at
from paper_figures.panels import NARROW, Drawn, Lines, Marks, Panel, lines_of_text, sequences_right
from paper_figures.results import RESULTS, Results
from paper_figures.rows import MeasuredRun, Row, Rows, Settings, model_row, rows_of, where

__all__ = [
    "AGREEMENT", "CODE_AND_LINEAR_RNNS", "IMPLICIT_ARE_RNNS", "OURS", "SLIDES", "Claim", "Drawn", "Figure",
    "Grid", "Layout", "Lines", "Marks", "MeasuredRun", "Measurement", "Point", "Row", "Rows", "Settings",
    "ShareOfRuns", "Variants", "Verdict", "accuracy_at", "as_published", "counts", "graded", "lines_of_text",
    "sequences_right", "verdict", "where",
]  # fmt: skip

SECTIONS = (
    "Theorem 1",
    "Fixed points",
    "State tracking",
    "Training",
    "Language models",
    "Sessions and beliefs",
    "Published",
)
"""Sections, in the order of the paper; within one, figures are in the order of their names."""
Share = Literal["none", "all", "row", "col"]
CAPTIONS = Path(__file__).parent / "figures"


@dataclass(frozen=True)
class Variants:
    """A base and rows that differ from it, each over some seeds."""

    base: Settings  # settings of every run; the recipe of the task fills in the rest
    rows: Mapping[str, Settings]  # what differs from the base, by the label of the row
    # how many; by row, where they differ (None stands for the others)
    seeds: int | Mapping[str | None, int] = 3

    @property
    def grids(self) -> tuple[Grid, ...]:
        """A grid per row."""
        return tuple(
            Grid({"seed": range(self._seeds(name))}, {**self.base, **different})
            for name, different in self.rows.items()
        )

    def label(self, settings: Settings) -> str:
        """Return the row that a run belongs to: the one whose differences are those of the run.

        The task of a run may be another than that of the base, by a file of settings.
        """
        base, chosen = _plain(self.base), _plain(settings)
        different = {
            name: value
            for name, value in chosen.items()
            if name != "seed" and not (name in base and (name == "task" or base[name] == value))
        }
        return next(name for name, row in self.rows.items() if _plain(row) == different)

    def _seeds(self, name: str) -> int:
        return self.seeds if isinstance(self.seeds, int) else self.seeds.get(name, self.seeds.get(None, 3))


def _plain(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON has them: lists in place of tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


@dataclass(frozen=True)
class Layout:
    """How the panels of a figure are arranged, on a page 6.75 inches wide and in a column of 3.3.

    ``share`` says which axes panels have in common, as `matplotlib.figure.Figure.subplots` takes it: if None
    the vertical one where all panels are of one kind, and none elsewhere. ``legend`` says how many columns
    the legend below has, None for no legend; ``keys`` its entries, if not the rows.
    """

    columns: tuple[int, int] = (3, 3)
    height: tuple[float, float] = (2.6, 2.6)
    share: tuple[Share, Share] | None = None
    legend: tuple[int, int] | None = None
    keys: Mapping[str, Look] | None = None

    def shared(self, panels: Sequence[Panel]) -> tuple[Share, Share]:
        """Return which horizontal and which vertical axes these panels have in common."""
        one_kind = len({*map(type, panels)}) == 1
        return self.share or ("none", "all" if one_kind else "none")

    def axes(self, figure: mpl.Figure, panels: Sequence[Panel], narrow: int) -> list[Axes]:
        """Return the axes of the panels; ``narrow`` is 0 on a page, 1 in a column."""
        count = len(panels)
        columns = min(self.columns[narrow], count)
        sharex, sharey = self.shared(panels)
        places = figure.subplots(
            -(-count // columns), columns, sharex=sharex, sharey=sharey, squeeze=False
        ).ravel()
        for empty in places[count:]:
            empty.remove()
        return list(places[:count])


@dataclass(frozen=True)
class Figure:
    """A figure of the paper."""

    title: str  # what it shows, in a line
    section: str  # one of `SECTIONS`
    panels: Sequence[Panel]  # what is drawn
    claim: Claim  # what its runs decide
    # variants of a recipe, or grids; none where it shows numbers of others
    runs: Variants | Sequence[Grid] = ()
    # what is measured of every run; all values must have different names
    measure: tuple[Measurement, ...] = ()
    layout: Layout = Layout()  # of the panels
    label: Callable[[Settings], str] = model_row  # of the row that a run belongs to, if `runs` are grids
    looks: Callable[[Settings], Look] | None = None  # of a row, if not those of its model
    # numbers that belong to no run, computed when results are stored, by name
    shared: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    data: tuple[str, ...] = ()  # files that the runs read, as `automata.data_files` names them
    name: str = ""  # of its files; given by the registry
    # settings that replace those of all runs, as of a file of settings; see `Experiment`
    overrides: Settings = field(default_factory=dict)

    @property
    def published(self) -> bool:
        """Return whether it shows numbers of others."""
        return not self.runs

    @property
    def experiment(self) -> Experiment:
        """Its runs and measurements."""
        grids = self.runs.grids if isinstance(self.runs, Variants) else tuple(self.runs)
        return Experiment(self.name, grids, self.measure, self.data, self.overrides)

    def rows(self, results: Results) -> Rows:
        """Return the measured runs by row."""
        label = self.runs.label if isinstance(self.runs, Variants) else self.label
        return rows_of(results.measured, label, self.looks, results.shared)

    def collected(self, outcomes: Sequence[Outcome]) -> Results:
        """Return the results of its experiment, which ended."""
        shared = {name: compute() for name, compute in self.shared.items()}
        return Results.collected(self.experiment, outcomes, shared)

    def rerun(self, store: str | Path) -> Results:
        """Train and measure what a store lacks; return the results, which replace no stored ones."""
        return self.collected(carry_out(self.experiment, Store(Path(store))))

    def results(self, folder: Path = RESULTS) -> Results:
        """Read its stored results; empty ones for published numbers."""
        return Results.none(self.name) if self.published else Results.read(self.name, folder)

    def verdict(self, results: Results) -> Verdict:
        """Judge the claim; where a row has no run that ended well, nothing is reproduced."""
        rows = self.rows(results)
        if lost := [row.label for row in rows if not row.runs]:
            return Verdict("not reproduced", f"no run ended well of {', '.join(lost)}")
        return self.claim.rule(rows)

    def caption(self, results: Results) -> str:
        """Return the caption: its Markdown, the verdict and the number of runs."""
        text = (CAPTIONS / f"{self.name}.md").read_text(encoding="utf-8").strip()
        judged = str(self.verdict(results))
        return "\n\n".join([text, f"{judged[0].upper()}{judged[1:]}.", *results.runs_sentence()])

    def picture(self, results: Results, width: float = TEXT_WIDTH) -> mpl.Figure:
        """Draw its results, so many inches wide."""
        narrow = int(width < NARROW)
        layout, rows = self.layout, self.rows(results)
        with styled():
            mark = "Published, not measured here" if self.published else ""
            figure = new_figure(width, layout.height[narrow], mark, color=RED)
            places = layout.axes(figure, self.panels, narrow)
            for axes, panel in zip(places, self.panels, strict=True):
                panel.draw(axes, rows)
                _label_outer(axes, *layout.shared(self.panels))
            if layout.legend is not None:
                handles = handles_of(places, layout.keys)
                figure.legend(
                    handles.values(), handles, loc="outside lower center", ncols=layout.legend[narrow]
                )
        return figure


REFERENCES = ("chance", "in training")  # labels of lines for reference, which a legend names last


def handles_of(panels: Sequence[Axes], keys: Mapping[str, Look] | None = None) -> dict[str, Any]:
    """Return the entries of one legend for all panels: every label once, without the number of its runs.

    ``keys`` are looks by label, in place of the lines; lines for reference stay.
    """
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.split(", mean of")[0].split(", 1 run")[0], handle)
    references = {label: handles.pop(label) for label in REFERENCES if label in handles}
    if keys is not None:
        handles = {
            label: Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dashes, markersize=4)
            for label, look in keys.items()
        }
    return handles | references


def _label_outer(axes: Axes, sharex: str, sharey: str) -> None:
    """Leave labels of shared axes to the outer panels."""
    place = axes.get_subplotspec()
    assert place is not None
    if sharex in ("all", "col") and not place.is_last_row():
        axes.set_xlabel("")
    if sharey in ("all", "row") and not place.is_first_col():
        axes.set_ylabel("")
