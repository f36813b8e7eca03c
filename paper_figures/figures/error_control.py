"""Do errors at short lengths tell the length at which a model fails? Predicted against measured, on S3."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import executed
from analysis.check_certificate import check_certificate
from analysis.error_control.spread import SHARE_BELOW
from analysis.framework.figures import new_panels, powers_of_two
from analysis.framework.output import RunIdentity, json_ready
from analysis.framework.palette import GREY, Look, model_label
from implicit.compiled import compile_run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import Claim
from paper_figures.figures.failures_measured import SETTINGS, FailureSettings, measure
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.forecasts import FACTOR, correlation, forecast_of, forecasts, judge
from paper_figures.figures.groups import Group, group_looks, grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.published_setting import (
    PUBLISHED_DELTA,
    PUBLISHED_LENGTH,
    PUBLISHED_MAMBA2,
    PUBLISHED_TRAINING,
    PUBLISHED_WIDTH,
)
from paper_figures.figures.trained import is_small, published_sentences, trained_as, training_of

TASK = "S3"
TICKS = (4, 16, 64, 256, 1024, 4096)
EDGE = 4 * TICKS[-1]
"""Where it is drawn what lies beyond all lengths that were tested."""


SEEDS = range(3)
GROWING = {
    "task": TASK,
    "start_length": 4,
    "length_growth": 2,
    "growth_accuracy": 0.93,
    "loss_until_error": False,
    "steps": 2500,
    "learning_rate": 5e-3,
    "carried_share": 0.0,
}
"""Lengths grow from 4 tokens as the model learns them, and every sequence begins anew."""
REFLECTING = {"negative_eigenvalues": True}
"""Of the delta rule: eigenvalues in [-1, 1], so that a step can reflect."""
EXPERIMENT = Experiment(
    "error_control",
    (
        Grid({"model": ["implicit-mamba2"], "seed": SEEDS}, {"task": TASK}),
        Grid({"model": ["lstm", "elman"], "seed": SEEDS}, {**GROWING, "length": 16}),
        Grid({"model": ["gated-deltaproduct"], "seed": SEEDS}, {**GROWING, **REFLECTING, "length": 16}),
        Grid({"model": ["pd-ssm"], "seed": SEEDS}, {**GROWING, "length": 16}),
        Grid({"model": ["gated-deltaproduct"], "seed": SEEDS}, {**GROWING, **REFLECTING, "length": 32}),
        Grid({"model": ["mamba2"], "seed": SEEDS}, {**GROWING, "length": 16}),
    ),
    (Measurement("failure", measure, SETTINGS),),
)
FULL_TRAINING: dict[str, Any] = {
    **PUBLISHED_TRAINING,
    "task": TASK,
    "length": PUBLISHED_LENGTH,
    "d_model": PUBLISHED_WIDTH,
    "layers": 1,
}
FULL = Experiment(
    EXPERIMENT.name,
    (
        Grid({"model": ["implicit-mamba2"], "seed": SEEDS}, {**FULL_TRAINING, **PUBLISHED_MAMBA2}),
        Grid({"model": ["lstm", "elman"], "seed": SEEDS}, FULL_TRAINING),
        Grid(
            {"model": ["gated-deltaproduct"], "seed": SEEDS},
            {**FULL_TRAINING, **PUBLISHED_DELTA, **REFLECTING},
        ),
        Grid({"model": ["pd-ssm"], "seed": SEEDS}, {**FULL_TRAINING, "heads": 4, "d_state": 64}),
        Grid({"model": ["mamba2"], "seed": SEEDS}, {**FULL_TRAINING, **PUBLISHED_MAMBA2}),
    ),
    EXPERIMENT.measurements,
)
"""The same cells at the width of Schöne et al. and in their training, all at one length; the paper that makes
the claim has other sizes."""
AFFINE = ("mamba2", "pd-ssm", "gated-deltaproduct")
"""Models whose token acts affinely on the state, given the last tokens."""


@cache
def certified(settings: FailureSettings) -> dict[str, Any]:
    """Compile S3 into weights, prove them right at every length, check the proof, and measure as all others.

    Raises:
        RefusedError: if the checker refuses the certificate.

    Example:
        >>> found = certified(FailureSettings(lengths=(4,), sequences=2, words=8, pairs=2, follow=2))
        >>> found["certificate"][:40], found["accuracy"]
        ('The certificate holds of implicit-mamba2', {'4': 1.0})
    """
    with TemporaryDirectory() as folder:
        run = compile_run(TASK, Path(folder) / "compiled")
        verified = check_certificate(executed.analyse(run).certificate(run), run)
        identity = RunIdentity.of(run)
        found = measure(run, settings)
    found |= {"certificate": verified, "weights_sha256": identity.weights_sha256}
    plain: dict[str, Any] = json_ready(found)
    return plain


def collect(outcomes: Sequence[Outcome], settings: FailureSettings = SETTINGS) -> Results:
    """Collect what was predicted and measured of every run, and of the compiled model.

    Example:
        >>> found = collect([], FailureSettings(lengths=(4,), sequences=2, words=8, pairs=2, follow=2))
        >>> found["groups"], found["certified"]["predicted"]
        ([], None)
    """
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": trained_as(outcomes, EXPERIMENT),
        "groups": grouped(outcomes, "failure"),
        "certified": certified(settings),
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a line per run against length, and predicted against measured lengths of failure, a mark per run.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("error_control").results, 3.3).axes)
        2
    """
    figure, (accuracy, failure) = new_panels(width, 2, height=2.9, columns=2)
    looks = _looks(found["groups"])
    _draw_accuracy(accuracy, found, looks)
    _draw_failures(failure, found, looks)
    figure.legend(
        *accuracy.get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 2
    )
    return figure


def _looks(groups: Sequence[Group]) -> list[Look]:
    """A look for every group; what a model has a second time gets another marker, too."""
    looks = group_looks(groups)
    return [
        replace(look, marker="h") if any(look.color == other.color for other in looks[:place]) else look
        for place, look in enumerate(looks)
    ]


def _label(group: Group) -> str:
    runs = [*group["seeds"].values()]
    trained = f", trained at {runs[0]['trained']} tokens" if runs else ""
    return f"{model_label(group['settings']['model'])}{trained}"


def _draw_accuracy(axes: Axes, found: Results, looks: Sequence[Look]) -> None:
    compiled = found["certified"]["accuracy"]
    lengths = [*map(int, compiled)]
    axes.plot(
        [*lengths, EDGE],
        [*compiled.values(), 1.0],
        color="black",
        linewidth=3.5,
        label="compiled, proved right at every length",
    )
    axes.plot([EDGE], [1.0], color="black", marker=">", markersize=6, linestyle="")
    for group, look in zip(found["groups"], looks, strict=True):
        for place, run in enumerate(group["seeds"].values()):
            axes.plot(
                lengths,
                [*run["accuracy"].values()],
                color=look.color,
                linestyle=look.dashes,
                linewidth=0.9,
                marker=look.marker,
                markersize=3,
                markevery=(place, 4),
                label=_label(group) if place == 0 else None,
            )
    axes.axhline(SHARE_BELOW, color=GREY, linewidth=0.9, linestyle="--", label="90%")
    axes.axhline(found["certified"]["chance"], color=GREY, linewidth=0.9, linestyle=":", label="chance")
    powers_of_two(axes, TICKS)
    axes.set(
        xlabel="sequence length (tokens)",
        ylabel=f"accuracy (last {found['reported_tokens']} tokens)",
        ylim=(-0.02, 1.06),
    )


def _draw_failures(axes: Axes, found: Results, looks: Sequence[Look]) -> None:
    ends = np.array([TICKS[0] / 2, EDGE / 2])
    axes.fill_between(ends, ends / FACTOR, ends * FACTOR, color=GREY, alpha=0.15, linewidth=0)
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    rows = {id(group): place - (len(looks) - 1) / 2 for place, group in enumerate(found["groups"])}
    for group, look in zip(found["groups"], looks, strict=True):
        one = forecasts({"groups": [group]})
        for place, forecast in enumerate(one):
            beside = 2 ** (0.45 * (place - (len(one) - 1) / 2))
            above = 2 ** (0.3 * rows[id(group)])
            axes.plot(
                [EDGE * beside if forecast.failed is None else forecast.failed],
                [EDGE * above if forecast.predicted is None else forecast.predicted],
                color=look.color,
                marker=look.marker,
                markersize=4.5,
                markerfacecolor=look.color if forecast.counts else "none",
                linestyle="",
                alpha=0.8,
            )
    compiled = forecast_of("compiled", found["certified"])
    axes.plot(
        [compiled.failed or EDGE],
        [compiled.predicted or EDGE],
        color="black",
        marker="*",
        markersize=9,
        linestyle="",
        zorder=1,
    )
    powers_of_two(axes, TICKS)
    axes.set_yscale("log", base=2)
    names = [*map(str, TICKS)]
    axes.set_xticks([*TICKS, EDGE], [*names, f"> {TICKS[-1]}"])
    axes.set_yticks([*TICKS, EDGE], [*names, "none"])
    axes.minorticks_off()
    axes.set(
        xlabel="accuracy below 90%: measured (tokens)",
        ylabel="predicted (tokens)",
        xlim=(TICKS[0] / 2, 4 * EDGE),
        ylim=(TICKS[0] / 2, 4 * EDGE),
    )


def caption(found: Results) -> str:
    """Tell what is drawn, what is proved, how the models were trained, and how many predictions were right.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("error_control").results))
        One layer on S3 (tokens: its six elements). Left: accuracy over the last 10 tokens ...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    longest = settings["lengths"][-1]
    trained = (
        "Training differs: the implicit model has its recipe, which passes states on in the end, in the "
        "others lengths grow from 4 and every sequence begins anew."
        if is_small(training, EXPERIMENT)
        else f"{published_sentences(training)} All but the implicit model have no fixed points to seek."
    )
    return (
        f"One layer on {TASK} (tokens: its six elements). Left: accuracy over the last "
        f"{found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}, sequential mode, tolerance {settings['rtol']:g}), a line per run. "
        f"{interval_sentence(settings['sequences'])} Black: weights compiled from the table "
        "of the group, not trained, which a certificate, verified by other means, proves "
        "right on words of every length as float32 executes them on a CPU, under stated "
        "assumptions on its operations; of the trained runs nothing is proved. Right: the first tested "
        f"length, up to {longest:,}, with less than {SHARE_BELOW:.0%} right, against the length at which q "
        "(distance of a state from the mean of its class, over that from there to the nearest other class) "
        "of more than a tenth of the states exceeds its limit (1/2, or the q with which the model was right "
        f"in training lengths), seen or extrapolated, in {settings['words']} words of {settings['read']} "
        f"training lengths (data seed {settings['words_seed']}); star: compiled. A prediction from the same "
        "model says something only if it is made from lengths shorter than the failure: open marks failed "
        "within these words and are not "
        f"counted. Grey: a factor of {FACTOR}; marks at the edges are spread. {trained} {_counts(found)} "
        f"{_left(found)}"
    )


def _counts(found: Mapping[str, Any]) -> str:
    every = forecasts(found)
    runs, r = correlation(found)
    together = f", r = {r:.2f}" if r is not None else ""
    return (
        f"Counted: {sum(forecast.counts for forecast in every)} of {len(every)} runs; "
        f"{judge(found).because}; correlation of the logarithms, a statistic of the {runs} "
        f"runs with both lengths{together}."
    )


def _left(found: Mapping[str, Any]) -> str:
    """The least and the largest share of an error that is left, of affine and of other models."""
    shares: dict[str, list[float]] = {"affine in the state": [], "others": []}
    for group in found["groups"]:
        kind = "affine in the state" if group["settings"]["model"] in AFFINE else "others"
        shares[kind] += [run["left"] for run in group["seeds"].values()]
    ranges = [f"{kind} {min(left):.2g} to {max(left):.2g}" for kind, left in shares.items() if left]
    return (
        "Of an error of 0.1% of the way to another class, left after "
        f"{found['settings']['follow']} tokens, medians of the runs: {'; '.join(ranges) or 'no runs'}."
    )


FIGURE = PaperFigure(
    title="Errors at short lengths and the length of failure",
    claim=Claim(
        "the time at which the spread of the states of a class reaches its limit against the distance of "
        "the classes tells the length at which a model fails on S3",
        "Chung, Choi and Kim 2026, arXiv 2605.07755",
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
