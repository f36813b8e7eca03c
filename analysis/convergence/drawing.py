"""The figure of `analysis.convergence`: residuals, iterations by position, and what a sequence costs."""

import numpy as np
from matplotlib.figure import Figure

from analysis.convergence.measurement import ConvergenceAnalysis
from analysis.framework.figures import COLORS, GREY, mark_quantiles, new_figure, powers_of_two, styled


def draw(found: ConvergenceAnalysis) -> Figure:
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
        figure = new_figure(
            11,
            3.6,
            f"{found.run.title}: search for the fixed points of {settings.sequences} sequences of "
            f"{settings.length} tokens, float64",
        )
        residual, position, cost = figure.subplots(1, 3)
        for mode, color, marker in zip(found.modes, COLORS, "os", strict=False):
            result = found.modes[mode]
            label = f"{mode}: {result.share_converged:.1%} converged"
            mark_quantiles(residual, np.arange(1.0, result.history.shape[1] + 1), result.history, color, mode)
            mark_quantiles(
                position, np.arange(1.0, settings.length + 1), result.iterations.astype(float), color, label
            )
            evaluations = [
                result.evaluations(length, shared=mode == "simultaneous") for length in found.lengths
            ]
            cost.plot(found.lengths, evaluations, marker + "-", color=color, label=mode)
        residual.axhline(settings.rtol, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
        residual.set(
            title="over tokens: median, middle 50% and 98%",
            xlabel="self-iteration",
            ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖",
            yscale="log",
        )
        position.set(
            title="iterations until the tolerance",
            xlabel="position of the token",
            ylabel="self-iterations",
            ylim=(0, None),
        )
        cost.set(
            title="cost of a sequence",
            xlabel="length (tokens)",
            ylabel="token evaluations of Φ",
            yscale="log",
        )
        powers_of_two(cost, found.lengths)
        for axes in (residual, position, cost):
            axes.legend(loc="upper right" if axes is residual else "upper left")
        return figure
