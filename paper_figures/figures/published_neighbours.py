"""How other models track states, as their authors publish it: what our figures may be read beside."""

import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import legend_below, new_panels
from paper_figures.figures.published_figure import PublishedFigure, Tables
from paper_figures.published_tables import PublishedTable

TABLES = ("regular_languages", "mamba3", "error_control", "catbabi_fixed_point")

INK = "#222222"
"""Of all marks: rows name the models, and shapes tell the rest."""
_SIZE = 4.5
_LETTERS = 19
"""In a line of a model's name."""

ARITHMETIC = {
    "parity": ("parity", "o", True),
    "modular_arithmetic": ("modular arithmetic", "^", True),
    "modular_arithmetic_brackets": ("with brackets", "D", False),
}
LAYERS = {"one_layer": ("one layer", "o", False), "two_layers": ("two layers", "s", True)}
"""For each column of a table: its label, its marker, and whether that is filled."""
_STEP = 0.26
"""Of a row, between the marks of its columns, so that none covers another."""

NONE = "none"
"""Where a length stands that no tested one reached."""


def draw(tables: Tables, width: float) -> Figure:
    """Draw a panel per table, with the model of every row by name.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.published_tables import read_table
        >>> with styled():
        ...     len(draw({name: read_table(name) for name in TABLES}, 3.3).axes)
        4
    """
    figure, (languages, arithmetic, lengths, babi) = new_panels(width, len(TABLES), height=2.1, columns=2)
    table = tables["regular_languages"]
    languages.plot(table.values("accuracy"), range(len(table.rows)), "o", color=INK, markersize=_SIZE)
    languages.set(xlim=(0, 104), xlabel="accuracy (%), regular languages")
    _name_rows(languages, table)
    table = tables["mamba3"]
    _mark_columns(arithmetic, ARITHMETIC, [table.values(column) for column in ARITHMETIC])
    arithmetic.set(xlim=(-4, 104), xlabel="scaled accuracy (%)")
    _name_rows(arithmetic, table)
    legend_below(arithmetic, columns=1 if width < 5 else 2)
    _draw_lengths(lengths, tables["error_control"])
    _draw_babi(babi, tables["catbabi_fixed_point"])
    return figure


def _draw_lengths(axes: Axes, table: PublishedTable) -> None:
    """The lengths at equal distances: they are a few, and one of them is none."""
    found = {value for column in LAYERS for value in table.values(column) if value is not None}
    places = {value: number for number, value in enumerate([None, *sorted(found)])}
    shown = [[places[value] for value in table.values(column)] for column in LAYERS]
    _mark_columns(axes, LAYERS, shown)
    ticks = [NONE if value is None else f"{value:,}" for value in places]
    axes.set_xticks(list(places.values()), ticks)
    axes.set(xlim=(-0.4, len(places) - 0.6), xlabel="largest length tracked, S3 (tokens)")
    _name_rows(axes, table)
    legend_below(axes, columns=len(LAYERS))


def _draw_babi(axes: Axes, table: PublishedTable) -> None:
    """A bar from the lowest to the highest variant, and a mark at each of the two."""
    names = [f"{row['model']}, {row['layers']} layer{'s' * (row['layers'] > 1)}" for row in table.rows]
    for place, row in enumerate(table.rows):
        axes.plot([row["lowest"], row["highest"]], [place] * 2, "o-", color=INK, markersize=_SIZE)
    axes.set(xlim=(70, 100), xlabel="accuracy (%), CatbAbI")
    _name_rows(axes, table, names)


def _mark_columns(
    axes: Axes, columns: Mapping[str, tuple[str, str, bool]], values: Sequence[Sequence[float]]
) -> None:
    """A mark per column in every row, one below the other."""
    for number, ((label, marker, filled), shown) in enumerate(zip(columns.values(), values, strict=True)):
        step = _STEP * (number - (len(columns) - 1) / 2)
        axes.plot(
            shown,
            [row + step for row in range(len(shown))],
            linestyle="",
            marker=marker,
            color=INK,
            markerfacecolor=INK if filled else "white",
            markersize=_SIZE,
            label=label,
        )


def _name_rows(axes: Axes, table: PublishedTable, names: Sequence[str] | None = None) -> None:
    """Name the models in narrow lines, and who publishes the numbers."""
    names = [
        textwrap.fill(name, _LETTERS, break_on_hyphens=False)
        for name in (table.values("model") if names is None else names)
    ]
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    axes.set_title(table.source.short)


def caption(tables: Tables) -> str:
    """Tell what every panel shows.

    Example:
        >>> from paper_figures.published_tables import read_table
        >>> print(caption({name: read_table(name) for name in TABLES}))
        State tracking ...
    """
    babi = tables["catbabi_fixed_point"]
    return (
        "State tracking of other models; each panel has its own task, training and measure, so that panels "
        "cannot be compared with each other, nor with what this toolkit measures unless its settings are "
        "the same. Regular languages: accuracy, mean over languages and five seeds, trained on at most 40 "
        "tokens, tested on 40 to 256. Scaled accuracy on parity and on modular arithmetic without and with "
        "brackets. S3: the largest tested length with an accuracy of at least 90%, trained on at most 60 "
        f"tokens, one and two layers; {NONE}: no length reaches it; lengths are evenly spaced. CatbAbI: "
        "accuracy of the answers, from 70%; a bar reaches from the lowest to the highest variant of the "
        f"model; {babi.remarks[-1]}."
    )


FIGURE = PublishedFigure(
    name="published_neighbours",
    title="State tracking of other models, as published",
    statement="PD-SSM and Mamba-3 track states that Mamba and Mamba-2 lose; Mamba with negative eigenvalues "
    "tracks S3 beyond its training length; FP-Mamba is ahead of Mamba on CatbAbI",
    tables=TABLES,
    draw=draw,
    caption=caption,
)
