"""What a reader sees in the figures of published numbers is what the tables say, below a mark that says so.

The tables are read as plain JSON, and names, colours and the mark are written out here.
"""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.figures.published_figure import PublishedFigure
from paper_figures.published_tables import TABLES
from paper_figures.registry import PUBLISHED
from tests.drawn_figures import WIDTHS, faults

both_widths = pytest.mark.parametrize("width", WIDTHS)
every_figure = pytest.mark.parametrize("name", PUBLISHED)

MODELS = [(family, size) for family in ("Llama", "Mamba-2") for size in ("760M", "1.3B")]
TASKS = ["lambada", "hellaswag", "piqa", "arc_easy", "arc_challenge", "winogrande", "openbookqa"]
COLUMNS = ["d_pile_perplexity", "lambada_perplexity", "average"]
EXPLICIT = {"Llama": "#000000", "Mamba-2": "#d55e00"}
IMPLICIT = {"Llama": "#6699cc", "Mamba-2": "#0072b2"}
GREY, RED, WHITE = "#777777", "#c00000", "#ffffff"


@cache
def rows(name: str) -> Any:
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))["rows"]


@cache
def drawn(name: str, width: float) -> Figure:
    return PUBLISHED[name].picture(width)


def places(line: Line2D) -> list[tuple[float, int]]:
    """The value of every mark of a line, and the row that it is nearest to."""
    x, y = (np.asarray(data, dtype=float).tolist() for data in (line.get_xdata(), line.get_ydata()))
    return [(value, round(row)) for value, row in zip(x, y, strict=True)]


def look(line: Line2D) -> tuple[str, str, str]:
    """Marker, colour and filling."""
    face: Any = line.get_markerfacecolor()
    return str(line.get_marker()), to_hex(line.get_color()), to_hex(face)


def marks(axes: Axes) -> set[tuple[float, int, str, str, str]]:
    """Every mark: its value, its row, marker, colour and filling."""
    with_marks = [line for line in axes.lines if line.get_marker() not in ("", "None")]
    return {(*place, *look(line)) for line in with_marks for place in places(line)}


def one(family: str, size: str, variant: str) -> Any:
    (row,) = [
        row
        for row in rows("downstream")
        if (row["family"], row["size"], row["variant"], row["data"]) == (family, size, variant, "D-Pile")
    ]
    return row


@both_widths
@every_figure
def test_every_text_can_be_read_and_no_legend_covers_data(name: str, width: float) -> None:
    assert faults(drawn(name, width), width) == []


@both_widths
@every_figure
def test_the_mark_stands_in_red_above_the_picture(name: str, width: float) -> None:
    figure = drawn(name, width)
    (mark,) = [text for text in figure.texts if text.get_text() == "Published, not measured here"]
    assert to_hex(mark.get_color()) == RED
    figure.draw_without_rendering()
    assert all(axes.get_window_extent().y1 < mark.get_window_extent().y0 for axes in figure.axes)


@every_figure
def test_the_caption_begins_with_the_mark_and_ends_with_the_sources(name: str) -> None:
    text = PUBLISHED[name].full_caption()
    assert text.startswith("Published, not measured here. ")
    sources = text[text.rindex("Source") :]
    for table in PUBLISHED[name].tables:
        source = json.loads((TABLES / f"{table}.json").read_text(encoding="utf-8"))["source"]
        assert f"{source['authors'][0]} et al. {source['year']}, arXiv {source['arxiv']}" in sources
        assert source["document"] in sources
        how = {"document": "read there", "digest": "a digest", "secondary": "somebody else's note"}
        assert how[source["read"]] in sources


@every_figure
def test_no_verdict_reads_as_measured(name: str) -> None:
    figure = PUBLISHED[name]
    verdict = "published: as its authors print it; nothing was run here"
    assert str(figure.shown().verdict) == str(figure.claim.judge({})) == verdict
    assert figure.shown().stored is None
    assert figure.claim.statement
    assert not figure.claim.statement.endswith(".")
    assert "20" in figure.claim.source  # a year


def test_nothing_that_is_drawn_can_take_the_mark_away() -> None:
    def draw(tables: Any, width: float) -> Figure:
        figure = Figure((width, 2), layout="constrained")
        figure.suptitle("Reproduced")
        return figure

    figure = PublishedFigure("tiny", "Tiny", "models are good", ("mamba3",), draw, lambda tables: "Good.")
    (mark,) = figure.picture(3.3).texts
    assert mark.get_text() == "Published, not measured here"
    assert figure.full_caption().startswith("Published, not measured here. Good. Source: ")


@both_widths
def test_every_model_has_its_marks_in_its_row(width: float) -> None:
    *panels, _ = drawn("published", width).axes
    names = [f"{family} {size}" for family, size in MODELS]
    for axes, column in zip(panels, COLUMNS, strict=True):
        assert [label.get_text() for label in axes.get_yticklabels()] == names
        expected = set()
        for place, (family, size) in enumerate(MODELS):
            black, blue = EXPLICIT[family], IMPLICIT[family]
            expected |= {
                (one(family, size, "explicit")[column], place, "s", black, black),
                (one(family, size, "bounded")[column], place, "o", blue, WHITE),
                (one(family, size, "free")[column], place, "o", blue, blue),
            }
            for row in rows("downstream"):
                elsewhere = (row["family"], row["size"]) == (family, size) and row["data"] != "D-Pile"
                if elsewhere and row[column] is not None:
                    expected.add((row[column], place, "x", GREY, GREY))
        assert marks(axes) == expected


@both_widths
def test_gains_are_the_free_model_less_the_explicit_one(width: float) -> None:
    axes = drawn("published", width).axes[-1]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    largest = max(line.get_markersize() for line in dots)
    found = [
        (
            round(places(line)[0][0], 9),
            places(line)[0][1],
            to_hex(line.get_color()),
            "1.3B" if line.get_markersize() == largest else "760M",
        )
        for line in dots
    ]
    assert sorted(found) == sorted(
        (
            round(one(family, size, "free")[task] - one(family, size, "explicit")[task], 9),
            row,
            IMPLICIT[family],
            size,
        )
        for row, task in enumerate(TASKS)
        for family, size in MODELS
    )


def test_the_caption_counts_the_tasks_on_which_implicit_models_are_ahead() -> None:
    """In whole units of the last place: nothing is lost to rounding."""
    pairs = [
        [round(1e4 * one(family, size, variant)[task]) for variant in ("free", "explicit")]
        for family, size in MODELS
        for task in TASKS
    ]
    ahead = sum(free > explicit for free, explicit in pairs)
    behind = sum(free < explicit for free, explicit in pairs)
    told = f"ahead in {ahead} of 28, behind in {behind} and equal in {28 - ahead - behind}"
    assert told in PUBLISHED["published"].full_caption()
    assert ahead == 22


@both_widths
def test_the_legend_names_every_look(width: float) -> None:
    figure = drawn("published", width)
    (legend,) = figure.legends
    looks = {
        text.get_text(): look(handle)
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if isinstance(handle, Line2D)
    }
    assert looks == {
        "Llama, explicit": ("s", "#000000", "#000000"),
        "Mamba-2, explicit": ("s", "#d55e00", "#d55e00"),
        "Llama, implicit, bounded": ("o", "#6699cc", WHITE),
        "Mamba-2, implicit, bounded": ("o", "#0072b2", WHITE),
        "Llama, implicit, free": ("o", "#6699cc", "#6699cc"),
        "Mamba-2, implicit, free": ("o", "#0072b2", "#0072b2"),
        "explicit, other data": ("x", GREY, GREY),
    }


def by_label(axes: Axes) -> dict[str, list[tuple[float, int]]]:
    """The marks that the legend names: values and rows."""
    return {str(line.get_label()): places(line) for line in axes.lines}


def flat(label: Any) -> str:
    return str(label.get_text()).replace("\n", " ")


@both_widths
def test_neighbours_have_their_numbers_in_their_rows(width: float) -> None:
    figure = drawn("published_neighbours", width)
    languages, arithmetic, lengths, babi = figure.axes
    tables = ("regular_languages", "mamba3", "error_control")
    for axes, name in zip((languages, arithmetic, lengths), tables, strict=True):
        assert [flat(label) for label in axes.get_yticklabels()] == [row["model"] for row in rows(name)]
    assert np.asarray(languages.lines[0].get_xdata()).tolist() == [
        row["accuracy"] for row in rows("regular_languages")
    ]
    columns = {
        "parity": "parity",
        "modular arithmetic": "modular_arithmetic",
        "with brackets": "modular_arithmetic_brackets",
    }
    assert by_label(arithmetic) == {
        label: [(row[column], place) for place, row in enumerate(rows("mamba3"))]
        for label, column in columns.items()
    }
    ticks = {
        place: flat(label)
        for place, label in zip(lengths.get_xticks(), lengths.get_xticklabels(), strict=True)
    }
    shown = {
        label: [(ticks[place], row) for place, row in found] for label, found in by_label(lengths).items()
    }
    assert shown == {
        label: [
            ("none" if row[column] is None else f"{row[column]:,}", place)
            for place, row in enumerate(rows("error_control"))
        ]
        for label, column in (("one layer", "one_layer"), ("two layers", "two_layers"))
    }
    for place, (line, row) in enumerate(zip(babi.lines, rows("catbabi_fixed_point"), strict=True)):
        assert np.asarray(line.get_xdata()).tolist() == [row["lowest"], row["highest"]]
        assert np.asarray(line.get_ydata()).tolist() == [place, place]
        words = f"{row['model']}, {row['layers']} layer"
        assert flat(babi.get_yticklabels()[place]).startswith(words)


def test_panels_of_neighbours_are_named_by_their_authors_and_secondary_ones_marked() -> None:
    titles = [axes.get_title() for axes in drawn("published_neighbours", 6.75).axes]
    assert titles == [
        "Terzić et al. 2025",
        "Lahoti et al. 2026",
        "Chung et al. 2026 (secondary)",
        "Movahedi et al. 2025",
    ]


def test_the_caption_says_why_catbabi_cannot_be_compared() -> None:
    assert "without a state" in PUBLISHED["published_neighbours"].full_caption()
