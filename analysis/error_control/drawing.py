"""The figure of `analysis.error_control`: q, accuracy, gains of words that return, errors followed."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.error_control.measurement import NOT_A_BOUND, ErrorControlAnalysis
from analysis.error_control.pairs import COMMON_TOKENS
from analysis.error_control.spread import SHARE_BELOW
from analysis.framework.figures import TEXT_WIDTH, legend_below, log_axis, new_panels, styled
from analysis.framework.palette import GREY, QUANTITY_LOOKS, RED
from automata.drawing import COLORS

FLOOR = 1e-12
"""What is smaller is drawn here: rounding, and the tolerance of the fixed points."""


def draw(found: ErrorControlAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw q and accuracy along words, gains of words that return, and what is left of errors.

    Example:
        >>> from analysis.error_control.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=16, block=8, pairs=4, follow=4)
        >>> [axes.get_xlabel() for axes in draw(found).axes]
        ['tokens read', 'tokens read', 'gain between the classes', 'tokens after the error']
    """
    with styled():
        figure, (spread, accuracy, gains, errors) = new_panels(
            width, 4, f"{found.run.title}: error control", height=2.75, columns=2
        )
        _draw_spread(spread, found)
        _draw_accuracy(accuracy, found)
        _draw_gains(gains, found)
        _draw_errors(errors, found)
        for axes in (spread, accuracy, gains, errors):
            legend_below(axes, columns=2)
        return figure


def _draw_spread(axes: Axes, found: ErrorControlAnalysis) -> None:
    tokens, ratios = found.spread.tokens, found.spread.ratios
    axes.fill_between(tokens, ratios[:, 0], ratios[:, 3], color=COLORS[0], alpha=0.2, linewidth=0)
    axes.plot(tokens, ratios[:, 1], color=COLORS[0], marker="o", markersize=3, label="median (band: 5–95%)")
    axes.plot(tokens, ratios[:, 2], color=COLORS[0], linestyle="--", label="90% are below")
    limit = found.spread.limit
    axes.axhline(limit, color=RED, linewidth=1, label=f"limit {limit:.2g}")
    axes.axvline(
        found.run.training_length, color=GREY, linewidth=0.8, linestyle="--", label="training length"
    )
    axes.set(title="spread / distance of classes", xlabel="tokens read", ylabel="q")
    log_axis(axes)


def _draw_accuracy(axes: Axes, found: ErrorControlAnalysis) -> None:
    look = QUANTITY_LOOKS["accuracy"]
    axes.plot(
        found.spread.tokens,
        found.spread.accuracy,
        color=look.color,
        marker=look.marker,
        markersize=3,
        label="accuracy",
    )
    axes.axhline(SHARE_BELOW, color=GREY, linewidth=0.8, linestyle=":", label=f"{SHARE_BELOW:.0%}")
    horizon = found.horizon
    if horizon.length is not None and horizon.length <= found.settings.length:
        axes.axvline(horizon.length, color=RED, linewidth=1, label=f"failure by q ({horizon.how})")
    axes.axvline(
        found.run.training_length, color=GREY, linewidth=0.8, linestyle="--", label="training length"
    )
    axes.set(title="accuracy", xlabel="tokens read", ylabel="share of right answers", ylim=(-0.02, 1.05))


def _draw_gains(axes: Axes, found: ErrorControlAnalysis) -> None:
    gains = found.followed.gains
    axes.set(
        title="words that return both states",
        xlabel="gain between the classes",
        ylabel="gain of a small error",
    )
    if gains is None:
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
    for number, size in enumerate(sorted(found.settings.errors, reverse=True)):
        low, middle, high = np.maximum(found.followed.quantiles(size), FLOOR)
        color = COLORS[number % len(COLORS)]
        axes.fill_between(tokens, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(tokens, middle, color=color, label=f"error {size:g}")
    axes.set(
        title="errors along the difference",
        xlabel="tokens after the error",
        ylabel="distance / distance of the pair",
    )
    log_axis(axes)


def caption(found: ErrorControlAnalysis) -> str:
    """Tell what is drawn.

    Example:
        >>> from analysis.error_control.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=16, block=8, pairs=4, follow=4)
        >>> caption(found)[:59]
        'Error control on 8 words of 16 tokens and at 4 pairs of sta'
    """
    settings = found.settings
    pairs = len(found.followed.shares[found.smallest])
    return (
        f"Error control on {settings.sequences} words of {settings.length} tokens and at {pairs} pairs of "
        f"states. q: after the same {COMMON_TOKENS} last tokens, the distance of a state from the mean of "
        "the others that stand for its automaton state, over the distance from that mean to the nearest "
        "other one, in the span of the differences of the means, in blocks of "
        f"{settings.block} positions; below 1/2 the nearest mean is the right one, and the limit is that or "
        "what the model read within its training length. Gains: by what factor words that return both "
        "automaton states change the distance of two states of different classes (horizontal) and of a state "
        "and one with an error (vertical); an affine layer is on the line for errors along the difference. "
        "Errors: distance of the runs with and without an error, over the distance of the pair, medians and "
        "5–95% bands; an affine layer keeps it. "
        f"Gains and errors in float64. {NOT_A_BOUND}"
    )
