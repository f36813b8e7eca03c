"""The kinds of panels that figures are made of; a panel is data: which values, against what, how."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from matplotlib.axes import Axes

from analysis.framework.figures import log_axis, powers_of_two
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import breadths, draw_runs
from paper_figures.rows import Chosen, MeasuredRun, Row, Rows, chosen_rows

NARROW = 5.0  # inches below which a figure is a column of a page with two, and its labels are short
_MOST_TICKS = 6
Value = str | Callable[[MeasuredRun], Any]  # a path such as ``accuracy@512``, or a function of the run
Curve = tuple[list[float], list[float]]  # places and values


class Panel(Protocol):
    """Something that draws rows on axes."""

    def draw(self, axes: Axes, rows: Rows) -> None:
        """Draw the rows on an empty panel."""


def value_of(run: MeasuredRun, value: Value) -> Any:
    """Return a value of a run, given by its path or a function."""
    return run.at(value) if isinstance(value, str) else value(run)


@dataclass(frozen=True)
class Lines:
    """Values against a number: every run thin, the mean of a row thick, a band over its runs."""

    # leads to {x: value}, or to a pair of sequences, x and values; a run of which it is None is left out.
    # Several quantities of all runs, each with a look, stand in a mapping {label: (y, look)}; lines are then
    # named by quantity and not by row
    y: Value | Mapping[str, tuple[Value, Look]]
    xlabel: str = "tokens"  # of the axis
    ylabel: str = "accuracy"  # of the axis
    title: str = ""  # above the panel
    chance: tuple[float, ...] = ()  # dotted lines across
    trained: tuple[float, ...] = ()  # dashed lines at places of training
    only: Chosen | None = None  # which rows are drawn; all if None
    name: Callable[[Row], str] = lambda row: row.label  # of a row in the legend
    xscale: Literal["linear", "log2", "log"] = "log2"  # linear, log2 (labels are powers of two) or log
    yscale: Literal["linear", "log"] = "linear"  # linear or log
    # from where to where; chosen by the data if None
    ylim: tuple[float | None, float | None] | None = (-0.04, 1.06)
    # places and their labels, where those of the scale do not fit
    xticks: tuple[Sequence[float], Sequence[str]] | None = None
    band: bool = True  # whether runs get a mean and a band, or each a line of its own
    markers: bool = True  # whether measured places are marked
    # whether the first rows are drawn broader, so that equal lines show behind one another
    equal: bool = False

    def draw(self, axes: Axes, rows: Rows) -> None:
        """Draw the lines, then what they are compared with."""
        places: set[float] = set()
        series = self._series(chosen_rows(rows, self.only))
        wide = breadths(len(series)) if self.equal else [1.8] * len(series)
        for (label, look, curves), breadth in zip(series, wide, strict=True):
            shown = look if self.markers else replace(look, marker="")
            for x, _ in curves:
                places.update(x)
            if self.band and curves:
                draw_runs(axes, curves[0][0], [y for _, y in curves], shown, label, breadth=breadth)
            else:
                for number, (x, y) in enumerate(curves):
                    axes.plot(
                        x, y, color=shown.color, marker=shown.marker, linestyle=shown.dashes, linewidth=0.9,
                        markersize=2.5, alpha=0.85, label=label if number == 0 else "_nolegend_",
                    )  # fmt: skip
        for level in self.chance:
            axes.axhline(level, color=GREY, linewidth=0.9, linestyle=":", label="chance")
        for place in self.trained:
            axes.axvline(place, color=GREY, linewidth=0.9, linestyle="--", label="in training")
        self._scale(axes, sorted(places))
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel, title=self.title)
        if self.ylim is not None:
            axes.set_ylim(*self.ylim)

    def _series(self, rows: Iterable[Row]) -> list[tuple[str, Look, list[Curve]]]:
        """Return label, look and the curves of all runs, of every row or quantity."""
        if isinstance(self.y, Mapping):
            quantities = [
                (label, look, [run for row in rows for run in row.runs], value)
                for label, (value, look) in self.y.items()
            ]
        else:
            quantities = [(self.name(row), row.look, list(row.runs), self.y) for row in rows]
        return [
            (label, look, [curve for run in runs if (curve := _curve(value_of(run, value))) is not None])
            for label, look, runs, value in quantities
        ]

    def _scale(self, axes: Axes, places: Sequence[float]) -> None:
        if self.yscale == "log":
            log_axis(axes)
        if self.xscale == "log2" and places:
            whole = [int(place) for place in places]
            powers_of_two(axes, whole if len(whole) <= _MOST_TICKS else whole[::2])
        elif self.xscale == "log":
            log_axis(axes, "x")
        if self.xticks is not None:
            axes.set_xticks(*self.xticks)
            axes.minorticks_off()


def _curve(found: Any) -> Curve | None:
    if found is None:
        return None
    x, y = (list(found), list(found.values())) if isinstance(found, Mapping) else found
    return [float(place) for place in x], [np.nan if value is None else float(value) for value in y]


@dataclass(frozen=True)
class Marks:
    """A line of text per row, and a mark per run."""

    value: Value  # of a run; one that has None gets no mark
    xlabel: str = ""  # of the axis; a line break is kept
    title: str = ""  # above the panel
    chance: tuple[float, ...] = ()  # dotted lines
    xlim: tuple[float, float] | None = None  # from where to where; chosen by the data, and from 0, if None
    ticks: int | tuple[float, ...] = 3  # the numbers on the axis, or how many at most
    log: bool = False  # whether the axis is logarithmic

    def draw(self, axes: Axes, rows: Rows) -> None:
        """Draw the marks of each row, one below the other."""
        largest = 0.0
        for place, row in enumerate(rows):
            found = [value_of(run, self.value) for run in row.runs]
            values = [float(value) for value in found if value is not None]
            largest = max([largest, *values])
            apart = min(0.18, 0.6 / max(1, len(values) - 1))
            heights = [place + apart * (number - (len(values) - 1) / 2) for number in range(len(values))]
            if values:  # marks that are not clipped and nowhere have no extent that a layout can use
                axes.plot(
                    values, heights, linestyle="", marker=row.look.marker or "o", color=row.look.color,
                    markersize=4, alpha=0.8, clip_on=False,
                )  # fmt: skip
        for level in self.chance:
            axes.axvline(level, color=GREY, linewidth=0.9, linestyle=":")
        if self.log:
            log_axis(axes, "x")
        axes.set_xlim(*(self.xlim or (None if self.log else 0, 1.08 * (largest or 1))))
        if isinstance(self.ticks, tuple):
            axes.set_xticks(self.ticks, [f"{tick:g}" for tick in self.ticks])
            axes.minorticks_off()
        elif not self.log:
            axes.locator_params(axis="x", nbins=self.ticks)
        axes.set(xlabel=self.xlabel, title=self.title, **lines_of_text([row.label for row in rows]))


def lines_of_text(names: Sequence[str]) -> dict[str, Any]:
    """Return the settings of axes that have a line for each name, one below the other."""
    return {"yticks": range(len(names)), "yticklabels": names, "ylim": (len(names) - 0.5, -0.5)}


def sequences_right(*lengths: int) -> list[Marks]:
    """Return a panel per length: the share of sequences of which every answer is right."""
    return [
        Marks(
            f"sequence_accuracy@{length}",
            f"right at\n{length:,} tokens",
            xlim=(-0.05, 1.05),
            ticks=(0, 0.5, 1),
        )
        for length in lengths
    ]


@dataclass(frozen=True)
class Drawn:
    """A panel of a figure's own: the function draws on axes if every row has a run that ended well.

    The settings go to `matplotlib.axes.Axes.set`.
    """

    function: Callable[[Axes, Rows], None]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, axes: Axes, rows: Rows) -> None:
        """Call the function."""
        if not all(row.runs for row in rows):
            axes.text(0.5, 0.5, "rows without a run", ha="center", va="center", transform=axes.transAxes)
            return
        self.function(axes, rows)
        axes.set(**self.settings)
