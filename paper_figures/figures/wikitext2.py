"""Perplexity of small language models against their parameters, and against what their training took."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import log_axis, new_figure
from analysis.framework.palette import Look
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped, parameters_of
from paper_figures.figures.published import EXPLICIT, IMPLICIT
from paper_figures.figures.wikitext2_measured import PerplexitySettings, measure_perplexity
from paper_figures.figures.wikitext2_time import TimeSettings, measure_update_seconds
from paper_figures.figures.wikitext2_training import (
    FAMILIES,
    FREE_ITERATIONS,
    GRIDS,
    KINDS,
    LENGTH,
    RATES,
    SEQUENCES,
    SIZES,
    STEPS,
    TEXTS,
    VOCABULARY,
)

SETTINGS = PerplexitySettings(file=TEXTS["test"])
PERPLEXITY = Measurement("test_perplexity", measure_perplexity, SETTINGS)
TIME_SETTINGS = TimeSettings(file=TEXTS["test"])
TIME = Measurement("update_time", measure_update_seconds, TIME_SETTINGS)
EXPERIMENT = Experiment("wikitext2", GRIDS, (PERPLEXITY, TIME), data=tuple(TEXTS.values()))
LABELS = {"explicit": "explicit", "bounded": "implicit, (4+1)", "free": "implicit, with free phase"}
AXES = {
    "parameters": "parameters",
    "operations": "operations of training",
    "training_seconds": "time of training (s)",
}
"""What perplexity is drawn against."""

Sizes = Mapping[str, Mapping[str, Any]]
"""By width and layers, ``seeds`` with what was measured of each run, and the seeds that ``failed``."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by family, kind, size and seed.

    Example:
        >>> collect([])["models"]
        {}
    """
    models: dict[str, dict[str, dict[str, Any]]] = {}
    times = [group["seeds"] for group in grouped(outcomes, TIME.name)]
    for group, timed in zip(grouped(outcomes, PERPLEXITY.name), times, strict=True):
        kind, family = group["settings"]["model"].split("-")
        parameters = parameters_of(outcomes, group["settings"])
        seeds = {
            seed: {**run, **timed[seed], "parameters": parameters}
            for seed, run in group["seeds"].items()
            if seed in timed
        }
        failed = {*group["failed"], *map(int, group["seeds"].keys() - timed.keys())}
        models.setdefault(family, {}).setdefault(kind, {})[group["settings"]["size"]] = {
            "seeds": seeds,
            "failed": sorted(failed),
        }
    return {"settings": SETTINGS.model_dump(mode="json"), "models": models}


def runs_of(group: Mapping[str, Any], name: str) -> list[float]:
    """Return a number of every run of a size.

    Example:
        >>> runs_of({"seeds": {"0": {"perplexity": 30}, "1": {"perplexity": 31}}}, "perplexity")
        [30.0, 31.0]
    """
    return [float(run[name]) for run in group["seeds"].values()]


def means(sizes: Sizes, name: str) -> list[float]:
    """Return the mean over the seeds of every size that has runs.

    Example:
        >>> means({"32 x 2": {"seeds": {"0": {"perplexity": 30}, "1": {"perplexity": 31}}}}, "perplexity")
        [30.5]
    """
    return [float(np.mean(runs_of(group, name))) for group in sizes.values() if group["seeds"]]


def at_equal(explicit: Sizes, implicit: Sizes, cost: str) -> list[float]:
    """Return the ratio of perplexities at equal cost, of every implicit size whose cost explicit ones span.

    The explicit perplexity there is interpolated between its sizes, logarithms along logarithms.

    Example:
        >>> one = {"a": {"seeds": {"0": {"parameters": 100, "perplexity": 40}}}}
        >>> other = {"b": {"seeds": {"0": {"parameters": 400, "perplexity": 10}}}}
        >>> between = {"c": {"seeds": {"0": {"parameters": 200, "perplexity": 15}}}}
        >>> round(at_equal({**one, **other}, between, "parameters")[0], 6)
        0.75
    """
    x, y = (np.log(means(explicit, name)) for name in (cost, "perplexity"))
    order = np.argsort(x)
    ratios = []
    for place, perplexity in zip(means(implicit, cost), means(implicit, "perplexity"), strict=True):
        if len(x) and x.min() <= np.log(place) <= x.max():
            ratios.append(float(perplexity / np.exp(np.interp(np.log(place), x[order], y[order]))))
    return ratios


def draw(found: Results, width: float) -> Figure:
    """Draw a panel for each family and each cost.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("wikitext2").results, 3.3).axes)
        6
    """
    narrow = width < 5
    figure = new_figure(width, 5.6 if narrow else 3.9)
    panels = figure.subplots(*((3, 2) if narrow else (2, 3)), sharey="col" if narrow else "row")
    for row, family in enumerate(FAMILIES):
        for column, (cost, label) in enumerate(AXES.items()):
            axes = panels[column][row] if narrow else panels[row][column]
            for kind, sizes in found["models"].get(family, {}).items():
                _draw_kind(axes, sizes, cost, kind, FAMILIES[family])
            log_axis(axes, "x", most=3)
            axes.set_xlabel(label)
            if (narrow and column == 0) or (not narrow and column == 1):
                axes.set_title(FAMILIES[family])
            if (narrow and row == 0) or (not narrow and column == 0):
                axes.set_ylabel("perplexity")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=1 if narrow else 3)
    return figure


def look_of(kind: str, family: str) -> Look:
    """Return how a kind of a family is drawn.

    Example:
        >>> look_of("explicit", "Llama").marker, look_of("free", "Llama").marker
        ('s', 'o')
    """
    return (EXPLICIT if kind == "explicit" else IMPLICIT)[family]


def _draw_kind(axes: Axes, sizes: Sizes, cost: str, kind: str, family: str) -> None:
    look, dashes = look_of(kind, family), "--" if kind == "bounded" else "-"
    label = LABELS[kind]
    axes.plot(means(sizes, cost), means(sizes, "perplexity"), color=look.color, linestyle=dashes)
    for group in sizes.values():
        axes.plot(
            runs_of(group, cost),
            runs_of(group, "perplexity"),
            linestyle="",
            marker=look.marker,
            color=look.color,
            markerfacecolor="white" if kind == "bounded" else look.color,
            markersize=4,
            label=label,
        )
        label = "_"


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how the kinds compare.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("wikitext2").results))
        Language models on WikiText-2, trained on the same tokens: ...
    """
    settings = found["settings"]
    listed = "; ".join(
        f"{FAMILIES[family]} {size} "
        + ", ".join(f"{LABELS[kind]} {_listed(kinds[kind].get(size))}" for kind in KINDS if kind in kinds)
        for family, kinds in found["models"].items()
        for size in SIZES
        if any(size in sizes for sizes in kinds.values())
    )
    free = " or ".join(f"({FREE_ITERATIONS[family]}+4) for {FAMILIES[family]}" for family in FAMILIES)
    rates = ", ".join(f"{rate:g} for {FAMILIES[family]}" for family, rate in RATES.items())
    return (
        "Language models on WikiText-2, trained on the same tokens: perplexity per token of a byte-pair "
        f"encoding of {VOCABULARY:,} on the first {settings['tokens']:,} tokens of the test text, in windows "
        f"of {settings['context']}. A mark is a run, a line joins the means of the sizes, width x layers: "
        f"{', '.join(SIZES)}. One pass over the training text, {STEPS:,} updates of {SEQUENCES} windows of "
        f"{LENGTH} tokens in the same order for all models of a seed; AdamW at peak rates of {rates}, the "
        "best of three on the validation text after 400 updates at 64 x 2, explicit and (4+1) alike (for "
        "Mamba-2 the largest that was tried), and taken for all sizes and the free phase. "
        "(4+1): four self-iterations without gradient and one with; free phase: the last fifth of the "
        f"updates at up to {free}. Fixed points at test to a relative tolerance of {settings['rtol']:g} "
        f"within {settings['max_iterations']} evaluations, all tokens together: "
        f"{_least_converged(found)} of the tokens of a run at least reach it. An implicit model has its "
        "injection more in parameters. Operations by formula, of a free phase an upper bound; time: "
        f"updates of each phase by the median of {TIME_SETTINGS.updates}, timed on one core of a CPU with "
        f"the weights at the end. Perplexities by run: {listed}. {_comparison(found)}"
    )


def _listed(group: Mapping[str, Any] | None) -> str:
    runs = [] if group is None else runs_of(group, "perplexity")
    return " and ".join(f"{value:.2f}" for value in runs) or "-"


def _least_converged(found: Mapping[str, Any]) -> str:
    shares = [
        run["share_converged"]
        for kinds in found["models"].values()
        for sizes in kinds.values()
        for group in sizes.values()
        for run in group["seeds"].values()
        if run["share_converged"] is not None
    ]
    return f"{int(100 * min(shares)) / 100:.2f}" if shares else "none"


def _comparison(found: Mapping[str, Any]) -> str:
    """What the caption says of equal parameters, equal operations and equal time."""
    said = []
    for cost, words in {
        "parameters": "parameters",
        "operations": "operations",
        "training_seconds": "time",
    }.items():
        ratios = {
            f"{FAMILIES[family]} {LABELS[kind].removeprefix('implicit, ')}": at_equal(
                kinds["explicit"], kinds[kind], cost
            )
            for family, kinds in found["models"].items()
            for kind in KINDS[1:]
            if "explicit" in kinds and kind in kinds
        }
        listed = ", ".join(f"{name} {_ratios(values)}" for name, values in ratios.items() if values)
        said.append(f"at equal {words} {listed or 'none is spanned'}")
    return (
        "Implicit perplexity over explicit, where the sizes of explicit models span the cost, interpolated "
        f"between them: {'; '.join(said)}."
    )


def _ratios(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f} (one size)"
    return f"{min(values):.3f} to {max(values):.3f} ({len(values)} sizes)"


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that implicit models predict better than explicit ones on the same tokens, the free phase most.

    Reproduced if in every family and size the mean perplexity of (4+1) is below that of the explicit model
    and that with the free phase below both; not reproduced if in none that with the free phase is below the
    explicit one; partly otherwise, also where a size has no runs. A size counts with the seeds that all three
    kinds have.

    Example:
        >>> judge({"models": {}}).word
        'not reproduced'
    """
    ordered, better, count = 0, 0, 0
    for kinds in found["models"].values():
        for size in SIZES:
            groups = [kinds.get(kind, {}).get(size, {"seeds": {}})["seeds"] for kind in KINDS]
            seeds = set(groups[0]) & set(groups[1]) & set(groups[2])
            if not seeds:
                continue
            explicit, bounded, free = (
                np.mean([group[seed]["perplexity"] for seed in sorted(seeds)]) for group in groups
            )
            count += 1
            better += bool(free < explicit)
            ordered += bool(free < bounded < explicit)
    because = (
        f"free below explicit at {better} of {count} sizes of both families, and free below (4+1) below "
        f"explicit at {ordered}"
    )
    if not better:
        return Verdict("not reproduced", because)
    every = len(FAMILIES) * len(SIZES)
    return Verdict("reproduced" if ordered == every else "partly", because)


FIGURE = PaperFigure(
    title="Small language models, explicit and implicit",
    claim=Claim(
        "at the same number of tokens implicit language models have a lower perplexity than explicit ones of "
        "the same width and depth, and a free phase at the end lowers it further",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
