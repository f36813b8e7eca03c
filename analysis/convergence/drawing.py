"""The figure of `analysis.convergence`: residuals, iterations by position, and what a sequence costs."""

import numpy as np
from matplotlib.figure import Figure

from analysis.convergence.measurement import ConvergenceAnalysis
from analysis.framework.figures import (
    TEXT_WIDTH,
    legend_below,
    log_axis,
    mark_quantiles,
    new_panels,
    powers_of_two,
    styled,
)
from analysis.framework.palette import GREY, MODE_LOOKS


def draw(found: ConvergenceAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw residuals, iterations by position, and what a sequence costs.

    Example:
        >>> from analysis.convergence.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=1, length=4)
        >>> [axes.get_xlabel() for axes in draw(found).axes]
        ['self-iteration', 'position of the token', 'length (tokens)']
    """
    settings = found.settings
    with styled():
        figure, (residual, position, cost) = new_panels(
            width, 3, f"{found.run.title}: search for the fixed points", height=2.6
        )
        for mode, result in found.modes.items():
            look = MODE_LOOKS[mode]
            mark_quantiles(
                residual, np.arange(1.0, result.history.shape[1] + 1), result.history, look.color, mode
            )
            mark_quantiles(
                position,
                np.arange(1.0, settings.length + 1),
                result.iterations.astype(float),
                look.color,
                f"{mode}: {result.share_converged:.1%} converged",
            )
            evaluations = [
                result.evaluations(length, shared=mode == "simultaneous") for length in found.lengths
            ]
            cost.plot(found.lengths, evaluations, marker=look.marker, color=look.color, label=mode)
        residual.axhline(settings.rtol, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
        residual.set(
            title="residual over tokens",
            xlabel="self-iteration",
            ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖",
        )
        position.set(
            title="iterations until the tolerance",
            xlabel="position of the token",
            ylabel="self-iterations",
            ylim=(0, None),
        )
        cost.set(title="cost of a sequence", xlabel="length (tokens)", ylabel="token evaluations of Φ")
        log_axis(residual)
        log_axis(cost)
        powers_of_two(cost, found.lengths)
        for axes in (residual, position, cost):
            legend_below(axes)
        return figure


def caption(found: ConvergenceAnalysis) -> str:
    """Tell what is drawn, with the shares of converged tokens.

    Example:
        >>> from analysis.convergence.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> caption(analyse(load_run("parity"), sequences=1, length=4))[-69:]
        'Converged tokens: simultaneous mode 100.00%, sequential mode 100.00%.'
    """
    settings = found.settings
    shares = ", ".join(f"{mode} mode {result.share_converged:.2%}" for mode, result in found.modes.items())
    return (
        f"Search for the fixed points of {settings.sequences} sequences of {settings.length} tokens, in "
        "float64, "
        f"to a relative residual of {settings.rtol:g}. Lines are medians over tokens (residual) or sequences "
        "(iterations), bands their middle 50% and 98%. The cost is the mean over sequences: simultaneous "
        "mode "
        "evaluates all tokens until the last is done, sequential mode each token until it is done. Converged "
        f"tokens: {shares}."
    )
