"""Are errors corrected, or do they add up with length? ``python -m analysis.error_control RUN``.

Three measurements of one run: q along words (`analysis.error_control.spread`), with the model as it runs; and
in float64 the gains of words that return two states, and errors followed along random words
(`analysis.error_control.following`). All of it is measured on some words, and none of it is a bound.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from analysis.error_control.following import Followed, Gains, Pairs, choose_pairs, follow_errors, median
from analysis.error_control.spread import SHARE_BELOW, Horizon, Spread, measure_spread, visit_ratios
from analysis.framework.analysis import EachRunAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, log_axis, new_panels, styled
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import GREY, QUANTITY_LOOKS, RED
from analysis.framework.run_lines import mark_training_lengths
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number, percent
from analysis.framework.visited_states import in_double_precision, sample_sequences
from automata.checks import at_most
from automata.drawing import COLORS
from implicit.runs.loading import Run

__all__ = [
    "ANALYSIS",
    "ErrorControlAnalysis",
    "ErrorControlSettings",
    "Followed",
    "Gains",
    "Horizon",
    "Pairs",
    "Spread",
    "analyse",
    "choose_pairs",
    "draw",
    "follow_errors",
    "main",
    "measure_spread",
    "visit_ratios",
]

Verdict = Literal["corrected", "partly corrected", "kept", "growing", "unknown"]
CORRECTED, KEPT, GROWING = 0.1, 0.9, 1.1
"""An error is corrected if less than a tenth of it is left, and kept if it is the same to within a tenth."""
ROUNDING = 1e-9  # gains below this are rounding and the tolerance of the fixed points
NOT_A_BOUND = (
    "Measured, not a bound: other words may do worse. What is proved of a model for words of every length "
    "stands in its certificate (analysis.certify --claim lengths)."
)


COLUMNS = (
    "q: 90% of the visits stay below it, in the last block. predicted: tokens after which it reaches its "
    "limit (~: extrapolated). failed: the middle of the first block with an accuracy below 90%. between, "
    "within: factor by which words that return both states change their distance, and a small error along "
    "it. left: share of the smallest error after the last token (1 for an affine layer)."
)


class ErrorControlSettings(SampleSettings):
    """Which words are read, and which errors are injected."""

    sequences: PositiveInt = Field(default=64, description="words along which q is measured")
    length: PositiveInt = Field(default=256, description="tokens of these words")
    block: PositiveInt = Field(default=16, description="positions whose visits are taken together for q")
    every: PositiveInt = Field(default=4, description="a state is visited after every so many tokens")
    pairs: PositiveInt = Field(default=32, description="pairs of states between which errors are injected")
    follow: PositiveInt = Field(default=32, description="tokens for which the errors are followed")
    errors: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(1e-3, 1e-2, 0.1, 0.4),
        min_length=1,
        description="sizes of the errors, as shares of the way to the other state",
    )
    max_iterations: PositiveInt = Field(
        default=1000, description="the most self-iterations per token, of the errors that are followed"
    )


@dataclass(frozen=True, eq=False)
class ErrorControlAnalysis(Answer):
    """The result of `analyse`."""

    run: RunIdentity
    settings: ErrorControlSettings
    spread: Spread  # q and accuracy along words
    followed: Followed  # what becomes of errors

    @property
    def smallest(self) -> float:
        """The smallest of the errors."""
        return min(self.settings.errors)

    @property
    def left(self) -> float:
        """The share left of the smallest error after the last token, in the median; 1 for an affine layer."""
        return self.followed.left(self.smallest)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the smallest error, in the median."""
        if np.isnan(self.left):
            return "unknown"
        if self.left < CORRECTED:
            return "corrected"
        if self.left < KEPT:
            return "partly corrected"
        return "kept" if self.left <= GROWING else "growing"

    @property
    def horizon(self) -> Horizon:
        """The length at which q says that the model fails."""
        return self.spread.horizon

    @property
    def sentence(self) -> str:
        """The finding, with what it was measured on."""
        settings, spread = self.settings, self.spread
        shares, failed = self.followed.shares[self.smallest][:, -1], spread.failure
        count, merged = len(shares), self.followed.merged
        accuracy = (
            f"Accuracy was never below {math.floor(1000 * spread.accuracy.min()) / 1000:.3f}"
            if failed is None
            else f"Accuracy fell below {SHARE_BELOW:.0%} in the block around token {failed:.0f}"
        )
        left = f"less than {ROUNDING:g}" if self.left < ROUNDING else f"{self.left:.2g}"
        if not np.isnan(self.left):
            becomes = (
                f"{self.verdict}: {left} of it is left after {settings.follow} tokens (median "
                f"of {np.isfinite(shares).sum()} pairs; an affine layer leaves 1)"
            )
        elif merged:
            becomes = "not measured"
        else:
            becomes = (
                f"not measured: within {settings.follow} tokens the automaton itself leads all {count} pairs "
                "of words to one state"
            )
        if merged:
            becomes += f". The model has one state for {merged} of {count} pairs that lead to different ones"
        return (
            f"an error of {self.smallest:g} of the way to a state of another class is {becomes}. "
            f"q, the spread of a class of states over its distance from others, was at most "
            f"{at_most(spread.upper[0], 2)} for 90% of the visits in the first {settings.block} tokens, "
            f"{at_most(spread.upper[-1], 2)} in the last {settings.block} (limit {spread.limit:.2g}). "
            f"{self.horizon.sentence}. {accuracy}"
        )

    @property
    def finding(self) -> Finding:
        """The verdict, and what was measured of q, gains and errors."""
        gains, horizon, failure = self.followed.gains, self.horizon, self.spread.failure
        sign = "~" if horizon.how == "extrapolated" else ""
        row = [
            number(self.spread.upper[-1]),
            "–" if horizon.length is None else f"{sign}{horizon.length:.0f}",
            "–" if failure is None else f"{failure:.0f}",
            "–" if gains is None else number(median(gains.between)),
            "–" if gains is None else number(median(gains.within)),
            number(self.left),
            self.verdict,
        ]
        columns = ["q", "predicted", "failed", "between", "within", "left", "errors are"]
        converged = min(self.followed.share_converged, self.spread.share_converged)
        lost = f"up to {percent(1 - converged, 2)} of the fixed points were not found"
        return Finding(
            self.sentence,
            [Rows(columns, [row], title="error control", note=COLUMNS)],
            limits=NOT_A_BOUND,
            warnings=[] if converged == 1 else [lost],
            verdict=self.verdict,
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "limits": NOT_A_BOUND,
            "left_of_the_smallest_error": self.left,
            "predicted_failure": {"tokens": self.horizon.length, "how": self.horizon.how},
            "measured_failure": self.spread.failure,
            "spread": self.spread.numbers(),
            "followed": self.followed.numbers(),
        }


@np.errstate(invalid="ignore", divide="ignore")  # of states that fall together: dashes say so
def analyse(run: Run, settings: ErrorControlSettings | None = None, **chosen: Any) -> ErrorControlAnalysis:
    """Measure what a model does to errors.

    The run is of a word problem; settings can be given by name instead. InputError for a bad setting, a model
    whose state grows, a task that is no word problem, or words that visit too few classes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=16, block=8, pairs=4, follow=16)
        >>> found.verdict, found.left < 0.1, 0.5 < found.followed.gains.numbers()["between"]["median"] < 2
        ('corrected', True, True)
    """
    settings = settings_from(ErrorControlSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    task = word_problem_of(run)
    drawn = sample_sequences(task, settings.sequences, settings.length, settings.seed)
    tokens, labels = (part.to(run.model.device) for part in drawn)
    spread = measure_spread(run, tokens, labels, settings.block, settings.every)
    rng, length = np.random.default_rng(settings.seed), min(settings.length, run.config.length)
    pairs = choose_pairs(task, settings.pairs, length, settings.follow, rng)
    model = in_double_precision(run.model)
    followed = follow_errors(model, pairs, settings.errors, settings.max_iterations, settings.seed)
    return ErrorControlAnalysis(RunIdentity.of(run), settings, spread, followed)


FLOOR = 1e-12  # what is smaller is drawn here: rounding, and the tolerance of the fixed points


def draw(found: ErrorControlAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw q and accuracy along words, gains of words that return, and what is left of errors."""
    with styled():
        figure, (spread, accuracy, gains, errors) = new_panels(
            width, 4, **for_title(found.run.title, found.finding), height=2.75, columns=2
        )
        _draw_spread(spread, found)
        _draw_accuracy(accuracy, found)
        _draw_gains(gains, found)
        _draw_errors(errors, found)
        for axes in (spread, accuracy, gains, errors):
            if axes.get_legend_handles_labels()[0]:
                legend_below(axes, columns=2)
        return figure


def _draw_spread(axes: Axes, found: ErrorControlAnalysis) -> None:
    tokens, ratios = found.spread.tokens, found.spread.ratios
    axes.fill_between(tokens, ratios[:, 0], ratios[:, 3], color=COLORS[0], alpha=0.2, linewidth=0)
    axes.plot(tokens, ratios[:, 1], color=COLORS[0], marker="o", markersize=3, label="median (band: 5–95%)")
    axes.plot(tokens, ratios[:, 2], color=COLORS[0], linestyle="--", label="90% are below")
    limit = found.spread.limit
    axes.axhline(limit, color=RED, linewidth=1, label=f"limit {limit:.2g}")
    mark_training_lengths(axes, [found.run])
    axes.set(title="spread / distance of classes", xlabel="tokens read", ylabel="q")
    log_axis(axes)


def _draw_accuracy(axes: Axes, found: ErrorControlAnalysis) -> None:
    look = QUANTITY_LOOKS["accuracy"]
    marks: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 3}
    axes.plot(found.spread.tokens, found.spread.accuracy, label="accuracy", **marks)
    axes.axhline(SHARE_BELOW, color=GREY, linewidth=0.8, linestyle=":", label=f"{SHARE_BELOW:.0%}")
    horizon = found.horizon
    if horizon.length is not None and horizon.length <= found.settings.length:
        axes.axvline(horizon.length, color=RED, linewidth=1, label=f"failure by q ({horizon.how})")
    mark_training_lengths(axes, [found.run])
    axes.set(title="accuracy", xlabel="tokens read", ylabel="share of right answers", ylim=(-0.02, 1.05))


def _draw_gains(axes: Axes, found: ErrorControlAnalysis) -> None:
    gains = found.followed.gains
    axes.set(
        title="words that return both states",
        xlabel="gain between the classes",
        ylabel="gain of a small error",
    )
    if gains is None or np.isnan(gains.between).all():
        axes.text(0.5, 0.5, "none found", ha="center", transform=axes.transAxes)
        return
    known = np.maximum(gains.between, FLOOR)
    for values, color, marker, label in (
        (gains.within, COLORS[0], "o", "along the difference"),
        (gains.sideways, COLORS[1], "^", "random direction"),
    ):
        axes.scatter(
            known, np.maximum(values, FLOOR), s=14, color=color, marker=marker, label=label, alpha=0.8
        )
    ends = min(np.nanmin(known), 1.0) / 1.5, max(np.nanmax(known), 1.0) * 1.5
    axes.plot(ends, ends, color=GREY, linewidth=0.8, label="equal: affine")
    axes.set_xlim(*ends)
    log_axis(axes, "x")
    log_axis(axes)


def _draw_errors(axes: Axes, found: ErrorControlAnalysis) -> None:
    tokens = np.arange(found.settings.follow + 1)
    for place, size in enumerate(sorted(found.settings.errors, reverse=True)):
        low, middle, high = np.maximum(found.followed.quantiles(size), FLOOR)
        color = COLORS[place % len(COLORS)]
        axes.fill_between(tokens, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(tokens, middle, color=color, label=f"error {size:g}")
    axes.set(
        title="errors along the difference",
        xlabel="tokens after the error",
        ylabel="distance / distance of the pair",
    )
    log_axis(axes)


ANALYSIS = EachRunAnalysis(
    name="error_control",
    question="Are errors between the states of an automaton corrected, or do they add up with length?",
    description="Follow errors in the state of a model, and how far states of one class lie apart.",
    settings=ErrorControlSettings,
    measure=analyse,
    draw=draw,
    shows="q: distance of a state from the mean of its class, over that of the nearest other mean. Gains: "
    "factor by which words that return both states change their distance (horizontal) and an error "
    "(vertical). Errors: medians, 5–95%.",
    needs=CONSTANT_STATE,
    any_length=True,
)
main = ANALYSIS.main
