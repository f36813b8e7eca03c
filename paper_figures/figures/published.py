"""The language models of the slides, explicit and implicit: perplexity and accuracies, as published."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.framework.figures import new_panels
from analysis.framework.palette import GREY, MODEL_LOOKS, Look
from paper_figures.figures.published_figure import PublishedFigure, Tables
from paper_figures.published_tables import PublishedTable

TABLE = "downstream"
FAMILIES, SIZES, DATA = ("Llama", "Mamba-2"), ("760M", "1.3B"), "D-Pile"
"""The rows of the figure; the models that are compared with each other were trained on the same data."""

EXPLICIT = {"Llama": Look("#000000", "s"), "Mamba-2": MODEL_LOOKS["mamba2"]}
IMPLICIT = {"Llama": Look("#6699CC", "o"), "Mamba-2": MODEL_LOOKS["implicit-mamba2"]}
"""Looks by family; no model of this toolkit is a Llama."""

TASKS = {
    "lambada": "LAMBADA",
    "hellaswag": "HellaSwag",
    "piqa": "PIQA",
    "arc_easy": "ARC-Easy",
    "arc_challenge": "ARC-Challenge",
    "winogrande": "WinoGrande",
    "openbookqa": "OpenbookQA",
}
"""The accuracies that the average is of, as they are called."""

PANELS = {
    "d_pile_perplexity": "perplexity, deduplicated Pile (lower is better)",
    "lambada_perplexity": "perplexity, LAMBADA (lower is better)",
    "average": "average accuracy (higher is better)",
}
STEPS = (-0.33, -0.11, 0.11, 0.33)
"""Where in its row a mark stands, so that none covers another: other data, explicit, bounded, free."""
_MARKER_SIZE = 4.5


def draw(tables: Tables, width: float) -> Figure:
    """Draw a row per model and a mark per variant, and what every accuracy gains.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.published_tables import read_table
        >>> with styled():
        ...     len(draw({"downstream": read_table("downstream")}, 3.3).axes)
        4
    """
    table = tables[TABLE]
    figure, (*panels, gains) = new_panels(width, len(PANELS) + 1, height=1.9, columns=2)
    for axes, (column, label) in zip(panels, PANELS.items(), strict=True):
        _draw_models(axes, table, column)
        axes.set_xlabel(label)
    _draw_gains(gains, table)
    figure.legend(handles=_handles(), loc="outside lower center", ncols=2 if width < 5 else 4, handlelength=1)
    return figure


def _draw_models(axes: Axes, table: PublishedTable, column: str) -> None:
    """A line from the explicit to the free model of each family and size, with a mark at every variant."""
    names: list[str] = []
    for family in FAMILIES:
        for size in SIZES:
            place, explicit, implicit = len(names), EXPLICIT[family], IMPLICIT[family]
            names.append(f"{family} {size}")
            bounded, free, before = (
                _model(table, family, size, variant)[column] for variant in ("bounded", "free", "explicit")
            )
            elsewhere_at, *places = (place + step for step in STEPS)
            axes.plot([before, bounded, free], places, color=GREY, linewidth=0.7, zorder=1)
            _mark(axes, before, places[0], explicit, filled=True)
            _mark(axes, bounded, places[1], implicit, filled=False)
            _mark(axes, free, places[2], implicit, filled=True)
            for other in _elsewhere(table, family, size):
                if other[column] is not None:
                    axes.plot(other[column], elsewhere_at, "x", color=GREY, markersize=_MARKER_SIZE)
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))


def _draw_gains(axes: Axes, table: PublishedTable) -> None:
    """The accuracy of the free model less that of the explicit one, a row per task."""
    axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
    models = [(family, size) for family in FAMILIES for size in SIZES]
    for row, task in enumerate(TASKS):
        for number, (family, size) in enumerate(models):
            place = row + 0.22 * (number - (len(models) - 1) / 2)
            gained = gain(table, family, size, task)
            _mark(axes, gained, place, IMPLICIT[family], filled=True, large=size == SIZES[-1])
    axes.set(
        xlabel=f"accuracy gained, free less explicit\n(small: {SIZES[0]}, large: {SIZES[1]})",
        yticks=range(len(TASKS)),
        yticklabels=list(TASKS.values()),
        ylim=(len(TASKS) - 0.5, -0.5),
    )


def _mark(axes: Axes, x: float, y: float, look: Look, *, filled: bool, large: bool = True) -> None:
    axes.plot(
        x,
        y,
        linestyle="",
        marker=look.marker,
        color=look.color,
        markerfacecolor=look.color if filled else "white",
        markersize=_MARKER_SIZE if large else 0.6 * _MARKER_SIZE,
    )


def _handles() -> list[Line2D]:
    def handle(label: str, marker: str, color: str, *, filled: bool = True, size: float = 1.0) -> Line2D:
        return Line2D(
            [],
            [],
            linestyle="",
            marker=marker,
            color=color,
            markerfacecolor=color if filled else "white",
            markersize=size * _MARKER_SIZE,
            label=label,
        )

    return [
        *(
            handle(f"{family}, explicit", EXPLICIT[family].marker, EXPLICIT[family].color)
            for family in FAMILIES
        ),
        *(
            handle(f"{family}, implicit, bounded", "o", IMPLICIT[family].color, filled=False)
            for family in FAMILIES
        ),
        *(handle(f"{family}, implicit, free", "o", IMPLICIT[family].color) for family in FAMILIES),
        handle("explicit, other data", "x", GREY),
    ]


def gain(table: PublishedTable, family: str, size: str, column: str) -> float:
    """Return a number of the free implicit model less that of the explicit one on the same data.

    Example:
        >>> from paper_figures.published_tables import read_table
        >>> round(gain(read_table("downstream"), "Llama", "1.3B", "average"), 4)
        0.0303
    """
    free, explicit = (_model(table, family, size, variant)[column] for variant in ("free", "explicit"))
    return float(free - explicit)


def _model(table: PublishedTable, family: str, size: str, variant: str) -> Mapping[str, Any]:
    return table.row(family=family, size=size, variant=variant, data=DATA)


def _elsewhere(table: PublishedTable, family: str, size: str) -> Sequence[Mapping[str, Any]]:
    """The models of that family and size that were trained on other data."""
    return [
        row for row in table.rows if (row["family"], row["size"]) == (family, size) and row["data"] != DATA
    ]


def caption(tables: Tables) -> str:
    """Tell what is drawn, and on how many tasks the free implicit models are ahead.

    Example:
        >>> from paper_figures.published_tables import read_table
        >>> print(caption({"downstream": read_table("downstream")}))
        Explicit and implicit language models of 760M and 1.3B parameters, trained on 207 billion tokens ...
    """
    table = tables[TABLE]
    gains = [gain(table, family, size, task) for family in FAMILIES for size in SIZES for task in TASKS]
    ahead, equal = sum(value > 1e-9 for value in gains), sum(abs(value) <= 1e-9 for value in gains)
    (tokens,) = {row["tokens"] for row in table.rows if row["data"] == DATA}
    (others,) = {row["tokens"] for row in table.rows if row["data"] != DATA}
    brackets = ", ".join(
        f"({row['self_iterations']}+{row['phantom_steps']}) {family} {variant}"
        for family in FAMILIES
        for variant in ("bounded", "free")
        for row in [_model(table, family, SIZES[0], variant)]
    )
    return (
        f"Explicit and implicit language models of {' and '.join(SIZES)} parameters, trained on {tokens} "
        "billion tokens of the deduplicated Pile; one number each, without intervals. Self-iterations and "
        f"phantom steps of the implicit ones: {brackets}. Crosses: explicit models trained on {others} "
        "billion tokens of other data, where given; the average of those of Llama is of six tasks, others "
        f"of {len(TASKS)}. Last panel: accuracy of the free implicit model less that of the explicit one on "
        f"the same data, small marks {SIZES[0]}, large ones {SIZES[1]}; it is ahead in {ahead} of "
        f"{len(gains)}, behind in {len(gains) - ahead - equal} and equal in {equal}."
    )


FIGURE = PublishedFigure(
    name="published",
    title="Language models of the slides, as published",
    statement="implicit Llama and Mamba-2 of 760M and 1.3B, free at the end of training, have a lower "
    "perplexity and a higher average accuracy than explicit ones trained on the same data",
    tables=(TABLE,),
    draw=draw,
    caption=caption,
)
