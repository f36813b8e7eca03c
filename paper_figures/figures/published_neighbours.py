"""How other models track states, as their authors publish it."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from paper_figures import figure as pf
from paper_figures.published_tables import PublishedTable, read_table

LANGUAGES, MAMBA3, LENGTHS, BABI = TABLES = tuple(
    read_table(name) for name in ("regular_languages", "mamba3", "error_control", "catbabi_fixed_point")
)
INK = "#222222"
ARITHMETIC = {
    "parity": ("parity", "o", True),
    "modular_arithmetic": ("modular arithmetic", "^", True),
    "modular_arithmetic_brackets": ("with brackets", "D", False),
}
LAYERS = {"one_layer": ("one layer", "o", False), "two_layers": ("two layers", "s", True)}
"""For each column of a table: its label, its marker, and whether that is filled."""


def _name_rows(axes: Axes, table: PublishedTable, names: Sequence[str]) -> None:
    """Name the models in narrow lines, and who publishes the numbers."""
    labels = [textwrap.fill(name, 19, break_on_hyphens=False) for name in names]
    axes.set(**pf.lines_of_text(labels))
    axes.set_title(table.short)


def _columns(
    axes: Axes, columns: Mapping[str, tuple[str, str, bool]], values: Sequence[Sequence[Any]]
) -> None:
    for number, ((label, marker, filled), shown) in enumerate(zip(columns.values(), values, strict=True)):
        axes.plot(
            shown, [row + 0.26 * (number - (len(columns) - 1) / 2) for row in range(len(shown))],
            linestyle="", marker=marker, color=INK, markerfacecolor=INK if filled else "white",
            markersize=4.5, label=label,
        )  # fmt: skip


def _languages(axes: Axes, _: pf.Rows) -> None:
    values = LANGUAGES.values("accuracy")
    axes.plot(values, range(len(values)), "o", color=INK, markersize=4.5)
    axes.set(xlim=(0, 104), xlabel="accuracy (%), regular languages")
    _name_rows(axes, LANGUAGES, LANGUAGES.values("model"))


def _arithmetic(axes: Axes, _: pf.Rows) -> None:
    _columns(axes, ARITHMETIC, [MAMBA3.values(column) for column in ARITHMETIC])
    axes.set(xlim=(-4, 104), xlabel="scaled accuracy (%)")
    _name_rows(axes, MAMBA3, MAMBA3.values("model"))


def _lengths(axes: Axes, _: pf.Rows) -> None:
    """Draw lengths at equal distances: they are a few, and one of them is none."""
    found = {value for column in LAYERS for value in LENGTHS.values(column) if value is not None}
    places = {value: number for number, value in enumerate([None, *sorted(found)])}
    _columns(axes, LAYERS, [[places[value] for value in LENGTHS.values(column)] for column in LAYERS])
    ticks = ["none" if value is None else f"{value:,}" for value in places]
    axes.set_xticks(list(places.values()), ticks)
    axes.set(xlim=(-0.4, len(places) - 0.6), xlabel="largest length tracked, S3 (tokens)")
    _name_rows(axes, LENGTHS, LENGTHS.values("model"))


def _babi(axes: Axes, _: pf.Rows) -> None:
    """Draw a bar from the lowest to the highest variant."""
    for place, row in enumerate(BABI.rows):
        axes.plot([row["lowest"], row["highest"]], [place] * 2, "o-", color=INK, markersize=4.5)
    axes.set(xlim=(70, 100), xlabel="accuracy (%), CatbAbI")
    names = [f"{row['model']}, {row['layers']} layer{'s' * (row['layers'] > 1)}" for row in BABI.rows]
    _name_rows(axes, BABI, names)


FIGURE = pf.Figure(
    title="State tracking of other models, as published",
    section="Published",
    claim=pf.Claim(
        "PD-SSM and Mamba-3 track states that Mamba and Mamba-2 lose; Mamba with negative eigenvalues tracks "
        "S3 beyond its training length; FP-Mamba is ahead of Mamba on CatbAbI",
        "; ".join(table.cited for table in TABLES),
        pf.as_published,
    ),
    panels=[pf.Drawn(_languages), pf.Drawn(_arithmetic), pf.Drawn(_lengths), pf.Drawn(_babi)],
    layout=pf.Layout(columns=(2, 1), height=(4.6, 9.0), share=("none", "none"), legend=(5, 2)),
)
