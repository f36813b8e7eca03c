"""Perplexity of small language models against their parameters, and against what their training took."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from analysis.framework.figures import log_axis
from analysis.framework.palette import GREY, Look
from paper_figures import figure as pf
from paper_figures.measurements.language import (
    PerplexitySettings,
    TimeSettings,
    measure_perplexity,
    measure_update_seconds,
)
from paper_figures.wikitext import EXPLICIT, FAMILIES, GRIDS, IMPLICIT, KINDS, SIZES, TEXTS

COSTS: dict[str, Callable[[pf.MeasuredRun], float]] = {
    "parameters": lambda run: float(run.identity["parameters"]),
    "operations of training": lambda run: float(run.values["operations"]),
    "time of training (s)": lambda run: float(run.values["training_seconds"]),
}


def kind_and_family(settings: pf.Settings) -> tuple[str, str]:
    """Return what the model's name says."""
    kind, family = settings["model"].split("-")
    return kind, FAMILIES[family]


def look(settings: pf.Settings) -> Look:
    """Return the look of a row: squares are explicit, (4+1) is dashed."""
    kind, family = kind_and_family(settings)
    of_family = (EXPLICIT if kind == "explicit" else IMPLICIT)[family]
    return replace(of_family, dashes="--" if kind == "bounded" else "-")


def _panel(family: str, label: str) -> pf.Drawn:
    cost = COSTS[label]

    def draw(axes: Axes, rows: pf.Rows) -> None:
        for kind in KINDS:
            sizes = [row for row in rows if kind_and_family(row.settings) == (kind, family)]
            one = look(sizes[0].settings)
            axes.plot(
                [np.mean([cost(run) for run in row.runs]) for row in sizes],
                [np.mean(row.each("perplexity")) for row in sizes],
                color=one.color,
                linestyle=one.dashes,
            )
            for row in sizes:
                axes.plot(
                    [cost(run) for run in row.runs], row.each("perplexity"), linestyle="", marker=one.marker,
                    color=one.color, markersize=4,
                    markerfacecolor="white" if kind == "bounded" else one.color,
                )  # fmt: skip
        log_axis(axes, "x", most=3)
        axes.set(xlabel=label, ylabel="perplexity", title=family if label == "parameters" else "")

    return pf.Drawn(draw)


def _means(rows: pf.Rows, family: str, size: str) -> tuple[float, ...] | None:
    """Return the mean perplexities of the three kinds over the seeds that all have."""
    chosen: dict[str, pf.Row] = {
        kind_and_family(row.settings)[0]: row
        for row in rows
        if kind_and_family(row.settings)[1] == family and row.settings["size"] == size
    }
    by_seed = [{run.settings["seed"]: run.at("perplexity") for run in chosen[kind].runs} for kind in KINDS]
    seeds = set.intersection(*map(set, by_seed))
    return tuple(float(np.mean([one[seed] for seed in seeds])) for one in by_seed) if seeds else None


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Compare at every family and size: free below (4+1) below explicit, and free below explicit.

    Reproduced if the first holds everywhere, not reproduced if the second holds nowhere; partly otherwise.
    """
    found = [means for family in FAMILIES.values() for size in SIZES if (means := _means(rows, family, size))]
    better = sum(free < explicit for explicit, _, free in found)
    ordered = sum(free < bounded < explicit for explicit, bounded, free in found)
    because = (
        f"free below explicit at {better} of {len(found)} sizes of both families, and free below (4+1) below "
        f"explicit at {ordered}"
    )
    return pf.graded(ordered == len(FAMILIES) * len(SIZES), better > 0, because)


FIGURE = pf.Figure(
    title="Small language models, explicit and implicit",
    section="Language models",
    claim=pf.Claim(
        "at the same number of tokens implicit language models have a lower perplexity than explicit ones of "
        "the same width and depth, and a free phase at the end lowers it further",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=(
        pf.Measurement("test_perplexity", measure_perplexity, PerplexitySettings(file=TEXTS["test"])),
        pf.Measurement("update_time", measure_update_seconds, TimeSettings(file=TEXTS["test"])),
    ),
    data=tuple(TEXTS.values()),
    label=lambda settings: f"{settings['model']}, {settings['size']}",
    looks=look,
    panels=[_panel(family, label) for family in FAMILIES.values() for label in COSTS],
    layout=pf.Layout(
        columns=(3, 2),
        height=(4.1, 5.9),
        share=("none", "none"),
        legend=(3, 1),
        keys={
            "explicit": Look(GREY, "s"),
            "implicit, (4+1) (hollow)": Look(GREY, "o", "--"),
            "implicit, free phase": Look(GREY, "o"),
        },
    ),
)
