"""Perplexity of language models against their cost: what the figure shows, and what its caption tells."""

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.framework.figures import styled
from paper_figures.figures import wikitext2
from paper_figures.figures.figure import Results
from tests.drawn_figures import SUM_ORDER, WIDTHS, faults
from tests.paper_figures.figures.language_outcomes import (
    FAMILIES,
    KINDS,
    SIZES,
    every_run_but_the_first,
    failed,
    parts,
    perplexity_of,
    predicted,
    share_of,
)
from tests.paper_figures.figures.test_repl_traces import numbers

POINTS = wikitext2.EXPERIMENT.points
COSTS = {
    "parameters": "parameters",
    "operations of training": "operations",
    "time of training (s)": "training_seconds",
}
LOOKS = {
    ("mamba2", "explicit"): ("#D55E00", "s", "#D55E00", "-"),
    ("mamba2", "bounded"): ("#0072B2", "o", "white", "--"),
    ("mamba2", "free"): ("#0072B2", "o", "#0072B2", "-"),
    ("llama", "explicit"): ("#000000", "s", "#000000", "-"),
    ("llama", "bounded"): ("#6699CC", "o", "white", "--"),
    ("llama", "free"): ("#6699CC", "o", "#6699CC", "-"),
}
"""Colour and marker of the marks, their filling, dashes of the line."""


@pytest.fixture(scope="module")
def found() -> Results:
    return every_run_but_the_first()


def panel_of(figure: Figure, family: str, cost: str, width: float) -> Axes:
    """The panel in the row of a family and the column of a cost; where it is narrow, the other way round."""
    row, column = [*FAMILIES].index(family), [*COSTS].index(cost)
    place = 2 * column + row if width < 5 else 3 * row + column
    axes = figure.axes[place]
    assert axes.get_xlabel() == cost
    return axes


def same_color(one: Any, other: Any) -> bool:
    return to_rgb(one) == to_rgb(other)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_mark_in_every_panel_of_its_family(found: Results, width: float) -> None:
    with styled():
        figure = wikitext2.draw(found, width)
        assert faults(figure, width) == []
    for family, (label, cost) in itertools.product(FAMILIES, COSTS.items()):
        axes = panel_of(figure, family, label, width)
        assert axes.get_xscale() == "log"
        for kind in KINDS:
            color, marker, filling, dashes = LOOKS[family, kind]
            sizes = found["models"][family][kind]
            marks = [
                (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
                for line in axes.lines
                if same_color(line.get_color(), color)
                and line.get_marker() == marker
                and same_color(line.get_markerfacecolor(), filling)
            ]
            runs = [list(group["seeds"].values()) for group in sizes.values()]
            assert marks == [
                ([run[cost] for run in seeds], [run["perplexity"] for run in seeds]) for seeds in runs
            ]
            (joined,) = [
                line
                for line in axes.lines
                if same_color(line.get_color(), color)
                and line.get_marker() in ("", "None")
                and line.get_linestyle() == dashes
            ]
            for data, name in ((joined.get_xdata(), cost), (joined.get_ydata(), "perplexity")):
                means = [sum(run[name] for run in seeds) / len(seeds) for seeds in runs]
                np.testing.assert_allclose(np.asarray(data, float), means, rtol=SUM_ORDER)
        assert len(axes.lines) == 3 * 3 + 3
    titles = {axes.get_title(): place for place, axes in enumerate(figure.axes) if axes.get_title()}
    assert titles == ({"Mamba-2": 0, "Llama": 1} if width < 5 else {"Mamba-2": 1, "Llama": 4})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(KINDS.values())


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = wikitext2.collect(outcomes)
        for width in WIDTHS:
            with styled():
                assert faults(wikitext2.draw(nothing, width), width) == []
        assert wikitext2.caption(nothing).count("none is spanned") == 3


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = wikitext2.caption(found)
    (vocabulary,) = numbers(r"byte-pair encoding of ([\d,]+) on", text)
    tokens, context = numbers(r"on the first ([\d,]+) tokens of the test text, in windows of (\d+)\.", text)
    updates, windows, length = numbers(r"([\d,]+) updates of (\d+) windows of (\d+) tokens in the same", text)
    rates = dict(
        zip(FAMILIES, numbers(r"peak rates of ([\d.]+) for Mamba-2, ([\d.]+) for Llama", text), strict=True)
    )
    most = {family: numbers(rf"\((\d+)\+(\d+)\) for {name}", text) for family, name in FAMILIES.items()}
    assert f"width x layers: {', '.join(SIZES)}." in text
    for point in POINTS:
        config, (family, kind, *_) = point.config, parts(point)
        assert (config.tokenizer, config.steps) == (vocabulary, updates)
        assert (config.sequences, config.length, config.algorithm) == (windows, length, "AdamW")
        assert config.optimizer.learning_rate == rates[family]
        assert (config.phases[0].iterations, config.phases[0].phantom_steps) == (4, 1)
        if kind == "free":
            assert config.phases[1].share == pytest.approx(1 / 5)
            assert (config.phases[1].iterations, config.phases[1].phantom_steps) == most[family]
    settings = found["settings"]
    assert (settings["tokens"], settings["context"]) == (tokens, context)
    assert numbers(r"relative tolerance of ([\d.]+) within (\d+) evaluations", text) == (
        settings["rtol"],
        settings["max_iterations"],
    )
    assert settings["file"] == "$IMPLICIT_SSM_DATA/wikitext-2/test.txt"


def test_the_caption_tells_every_perplexity_and_the_least_converged_run(found: Results) -> None:
    text = wikitext2.caption(found)
    listed = text.split("Perplexities by run: ")[1].split(". Implicit perplexity over")[0].split("; ")
    expected = []
    for family, (size, (*_, seeds)) in itertools.product(FAMILIES, SIZES.items()):
        told = []
        for kind, name in KINDS.items():
            runs = [
                f"{perplexity_of(point):.2f}"
                for point in POINTS[1:]
                if parts(point)[:3] == (family, kind, size)
            ]
            assert len(runs) == seeds - ((family, kind, size) == parts(POINTS[0])[:3])
            told.append(f"{name} {' and '.join(runs)}")
        expected.append(f"{FAMILIES[family]} {size} {', '.join(told)}")
    assert listed == expected
    shares = [share_of(n) for n, point in enumerate(POINTS[1:]) if parts(point)[1] != "explicit"]
    (least,) = numbers(r"together: ([\d.]+) of the tokens of a run at least reach it", text)
    assert least == math.floor(100 * min(shares)) / 100  # rounded down: no run has less


def test_the_caption_compares_at_equal_parameters_and_operations() -> None:
    """Implicit models have 0.3 and 0.2 of the perplexity where theirs is on the line of explicit ones."""
    outcomes = []
    for point in POINTS:
        _, kind, size, _ = parts(point)
        width, layers, _ = SIZES[size]
        cost = {"explicit": 1, "bounded": 3, "free": 5}[kind]
        scale = {"explicit": 1.0, "bounded": 0.3, "free": 0.2}[kind]
        parameters = 1000 * width * layers + 100 * (kind != "explicit")
        # explicit perplexity is 1e6 over parameters, which is on a line in logarithms
        outcomes.append(predicted(point, scale * 1e6 / (parameters * cost), 1.0))
    text = wikitext2.caption(wikitext2.collect(outcomes))
    parameters, operations = re.findall(r"at equal (?:parameters|operations) ([^;]*?)(?:;|\.$)", text)
    # at equal parameters the factors of cost remain: 0.3 / 3 and 0.2 / 5; the largest is not spanned
    for name in FAMILIES.values():
        assert f"{name} (4+1) 0.100 to 0.100 (2 sizes)" in parameters
        assert f"{name} with free phase 0.040 to 0.040 (2 sizes)" in parameters
        assert f"{name} (4+1) 0.300 (one size)" in operations
        assert f"{name} with free phase 0.200 (one size)" in operations
