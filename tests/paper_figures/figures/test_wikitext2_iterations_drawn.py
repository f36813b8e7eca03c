"""Self-iterations of language models at test: what the figure shows, and what its caption tells."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from analysis.framework.figures import styled
from paper_figures.figures import wikitext2_iterations
from paper_figures.figures.figure import Results
from tests.drawn_figures import SUM_ORDER, WIDTHS, faults, panel
from tests.paper_figures.figures.iteration_outcomes import (
    ALLOWED,
    FIFTHS,
    POINTS,
    TOKENS,
    all_but_the_first,
    outcome,
    perplexities,
)
from tests.paper_figures.figures.language_outcomes import FAMILIES, failed, parts
from tests.paper_figures.figures.test_repl_traces import numbers

LOOKS = {
    ("mamba2", "bounded"): ("#0072B2", "white", "--"),
    ("mamba2", "free"): ("#0072B2", "#0072B2", "-"),
    ("llama", "bounded"): ("#6699CC", "white", "--"),
    ("llama", "free"): ("#6699CC", "#6699CC", "-"),
}
"""Colour, filling of the marks and dashes of the line, as in the other figure of these models."""


@pytest.fixture(scope="module")
def found() -> Results:
    return all_but_the_first()


def numbers_of(family: str, kind: str) -> list[int]:
    """The numbers of the runs of a kind of a family that ended well."""
    return [n for n, point in enumerate(POINTS) if n and parts(point)[:2] == (family, kind)]


def lines_of(axes: Axes, look: tuple[str, str, str], breadth: float) -> list[Line2D]:
    color, _, dashes = look
    return [
        line
        for line in axes.lines
        if (line.get_color(), line.get_linestyle(), line.get_linewidth()) == (color, dashes, breadth)
    ]


def values_of(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_ydata())]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_in_the_panel_of_its_family(found: Results, width: float) -> None:
    with styled():
        figure = wikitext2_iterations.draw(found, width)
        assert faults(figure, width) == []
    assert [axes.get_title() for axes in figure.axes[:2]] == [*FAMILIES.values()]
    for family, title in FAMILIES.items():
        axes, drawn, bands = panel(figure, title), 0, 0
        for kind in ("bounded", "free"):
            look, runs = LOOKS[family, kind], [perplexities(n) for n in numbers_of(family, kind)]
            thin = lines_of(axes, look, 0.6)
            assert [values_of(line) for line in thin] == (runs if len(runs) > 1 else [])
            (thick,) = lines_of(axes, look, 1.8)
            means = [sum(values) / len(runs) for values in zip(*runs, strict=True)]
            np.testing.assert_allclose(values_of(thick), means, rtol=SUM_ORDER)
            assert (thick.get_marker(), to_rgb(str(thick.get_markerfacecolor()))) == ("o", to_rgb(look[1]))
            assert all(np.asarray(line.get_xdata()).tolist() == ALLOWED for line in (*thin, thick))
            if len(runs) > 1:
                band = [one for one in axes.collections if isinstance(one, PolyCollection)][bands]
                corners = {(float(x), float(y)) for x, y in np.asarray(band.get_paths()[0].vertices)}
                assert corners == {
                    (count, edge(values))
                    for count, *values in zip(ALLOWED, *runs, strict=True)
                    for edge in (min, max)
                }
                np.testing.assert_array_equal(np.asarray(band.get_facecolor())[0, :3], to_rgb(look[0]))
                bands += 1
            drawn += len(thin) + 1
        assert (len(axes.lines), len(axes.collections)) == (drawn, bands)
        assert axes.get_xscale() == "log"
        assert [text.get_text() for text in axes.get_xticklabels()] == [str(count) for count in ALLOWED]
        legend: Any = axes.get_legend()
        first = "1 run" if family == "mamba2" else "mean of 2 runs"
        assert [text.get_text() for text in legend.get_texts()] == [
            f"implicit, (4+1), {first}",
            "implicit, with free phase, mean of 2 runs",
        ]


def test_the_axis_leaves_out_what_is_worse_than_with_three(found: Results) -> None:
    with styled():
        figure = wikitext2_iterations.draw(found, WIDTHS[1])
    for family, title in FAMILIES.items():
        low, high = panel(figure, title).get_ylim()
        for number in (*numbers_of(family, "bounded"), *numbers_of(family, "free")):
            _, two, *others = perplexities(number)
            assert low < min(others) <= max(others) < high < two


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("title", "labels", "above"),
    [
        ("by kind of token", [*TOKENS], [*TOKENS.values()]),
        ("by surprise of the next token, in fifths", ["least", "", "", "", "most"], [*FIFTHS]),
    ],
    ids=["kinds", "fifths"],
)
def test_every_run_has_a_mark_at_every_kind_of_token_and_every_fifth(
    title: str, labels: list[str], above: list[float], found: Results, width: float
) -> None:
    with styled():
        axes = panel(wikitext2_iterations.draw(found, width), title)
    assert [text.get_text() for text in axes.get_xticklabels()] == labels
    assert [*axes.get_xticks()] == [*range(len(labels))]
    marks = [
        (
            (to_rgb(str(line.get_color())), to_rgb(str(line.get_markerfacecolor())), line.get_marker()),
            np.asarray(line.get_xdata()).tolist(),
            values_of(line),
        )
        for line in axes.lines
    ]
    assert {line.get_linestyle() for line in axes.lines} == {"None"}
    expected = []
    for (family, kind), shift in zip(LOOKS, (-0.24, -0.08, 0.08, 0.24), strict=True):
        color, filling, _ = LOOKS[family, kind]
        for number in numbers_of(family, kind):
            places = pytest.approx([place + shift for place in range(len(labels))], abs=1e-12)  # rounding
            values = [number + value for value in above]
            expected.append(((to_rgb(color), to_rgb(filling), "o"), places, values))
    assert marks == expected
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > max(max(values) for *_, values in marks)


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_are_drawn_where_no_run_ended_well(width: float) -> None:
    llama = [outcome(n) for n, point in enumerate(POINTS) if parts(point)[0] == "llama"]
    for outcomes, told in (([], 2), ([failed(point) for point in POINTS], 2), (llama, 1)):
        nothing = wikitext2_iterations.collect(outcomes)
        with styled():
            figure = wikitext2_iterations.draw(nothing, width)
            assert faults(figure, width) == []
        words = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert words == ["no run ended well"] * told
        assert wikitext2_iterations.caption(nothing).endswith("No run ended well.") == (told == 2)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = wikitext2_iterations.caption(found)
    (width,) = numbers(r"of width (\d+) and two layers, trained", text)
    bounded = numbers(r"with \((\d+)\+(\d+)\) throughout \(hollow, dashed\)", text)
    for point in POINTS:
        config, (_, kind, *_) = point.config, parts(point)
        assert (config.model.fields["hidden_size"], config.model.fields["num_hidden_layers"]) == (width, 2)
        assert (config.phases[0].iterations, config.phases[0].phantom_steps) == bounded
        assert [phase.share for phase in config.phases] == ([1.0] if kind == "bounded" else [0.8, 0.2])
    assert "with a free phase in the last fifth of the updates (filled)" in text
    settings = found["settings"]
    assert numbers(r"on the first (\d+) windows of (\d+) tokens of the test text", text) == (
        settings["windows"],
        settings["context"],
    )
    assert numbers(r"relative tolerance of ([\d.]+), at most (\d+), token by token", text) == (
        settings["rtol"],
        settings["max_iterations"],
    )
    assert settings["file"] == "$IMPLICIT_SSM_DATA/wikitext-2/test.txt"


TOLD = (
    ("Mamba-2 (4+1)", "at 6, 1.010 of it at the most", "11.5", "23", "0.901"),
    (
        "Mamba-2 with free phase",
        "at 8, 1.020 of it at the most; at 12, 1.030 of it at the most",
        "12.5, 13.5",
        "25, 27",
        "0.902",
    ),
    (
        "Llama (4+1)",
        "at 16, 1.040 of it at the most; at 24, 1.050 of it at the most",
        "14.5, 15.5",
        "29, 31",
        "0.904",
    ),
    (
        "Llama with free phase",
        "at 32, 1.060 of it at the most; at 64, 1.000 of it at the most",
        "16.5, 17.5",
        "33, 35",
        "0.906",
    ),
)
"""Where each run is best, mean and 95% quantile of its self-iterations, the least share, rounded down."""


def test_the_caption_tells_of_every_run(found: Results) -> None:
    told = "; ".join(
        f"{name} best {places} (mean {means}, 95% quantile {most} evaluations per token to the "
        f"tolerance, which {share} of the tokens of a run at least reach)"
        for name, places, means, most, share in TOLD
    )
    assert wikitext2_iterations.caption(found).endswith(f"marks as above. {told}.")
