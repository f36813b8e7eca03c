"""The search for the fixed points on parity: residuals, and iterations against position and length."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import COLORS, GREY, powers_of_two
from analysis.framework.output import json_ready
from implicit.modes import Mode
from paper_figures.figures.figure import PaperFigure, Results, RunRecipe, Runs

SEEDS = (0, 1, 2, 3, 4)
SETTINGS = ConvergenceSettings(sequences=8, length=256, rtol=1e-6, max_iterations=1000, seed=0)
SHOWN_SEED = 0
"""The run whose residuals are shown; the other panels show all runs."""
MODE_COLORS = dict(zip(MODES, COLORS, strict=False))
MODE_MARKERS = dict(zip(MODES, "os", strict=True))


def compute(runs: Runs) -> Results:
    """Follow the fixed-point iteration of every run in both modes.

    Example:
        >>> compute({})["seeds"]
        {}
    """
    found = {str(wanted.seed): json_ready(analyse(run, SETTINGS).numbers()) for wanted, run in runs.items()}
    return {"settings": SETTINGS.model_dump(mode="json"), "seeds": found}


def draw(found: Results) -> Figure:
    """Draw residuals of one run, and iterations against position and length of all runs.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("convergence").results).axes) >= 3
        True
    """
    figure = Figure(figsize=(10.5, 4), layout="constrained")
    residual, position, length = figure.subplots(1, 3)
    seeds = found["seeds"]
    for mode in MODES:
        _draw_residuals(residual, seeds[str(SHOWN_SEED)][mode], mode)
        _draw_positions(position, [numbers[mode] for numbers in seeds.values()], mode)
        _draw_lengths(length, [numbers[mode] for numbers in seeds.values()], mode)
    tolerance = found["settings"]["rtol"]
    residual.axhline(tolerance, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
    residual.set(
        title=f"residual over tokens (seed {SHOWN_SEED})",
        xlabel="self-iteration",
        ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖",
        yscale="log",
    )
    residual.set_ylim(tolerance * 1e-6, None)  # room for the legend
    residual.legend(title="median; middle 50% and 98%", title_fontsize=7.5, loc="lower right")
    position.set(
        title="self-iterations until the tolerance",
        xlabel="position of the token",
        ylabel="self-iterations of a token (median)",
        ylim=(0, None),
    )
    position.legend()
    length.set(
        title="cost of a sequence",
        xlabel="length (tokens)",
        ylabel="evaluations of Φ, tokens × iterations",
        yscale="log",
    )
    length.legend()
    return figure


def _draw_residuals(axes: Axes, numbers: dict[str, Any], mode: Mode) -> None:
    levels = {level: np.array(values) for level, values in numbers["residual_by_iteration"].items()}
    steps = np.arange(1, len(levels["0.5"]) + 1)
    color = MODE_COLORS[mode]
    for low, high, alpha in (("0.01", "0.99", 0.15), ("0.25", "0.75", 0.3)):
        axes.fill_between(steps, levels[low], levels[high], color=color, alpha=alpha, linewidth=0)
    axes.plot(steps, levels["0.5"], color=color, label=mode)


def _draw_positions(axes: Axes, runs: list[dict[str, Any]], mode: Mode) -> None:
    medians = np.array([numbers["iterations_by_position"]["median"] for numbers in runs])
    _draw_runs(axes, np.arange(1, medians.shape[1] + 1), medians, mode)


def _draw_lengths(axes: Axes, runs: list[dict[str, Any]], mode: Mode) -> None:
    lengths = [int(length) for length in runs[0]["by_length"]]
    costs = [
        [numbers["by_length"][str(length)]["token_evaluations"] for length in lengths] for numbers in runs
    ]
    _draw_runs(axes, np.array(lengths), np.array(costs), mode, MODE_MARKERS[mode])
    powers_of_two(axes, lengths)


def _draw_runs(axes: Axes, x: Any, values: Any, mode: Mode, marker: str = "") -> None:
    """Draw every run as a thin line and the mean of all as a thick one."""
    color = MODE_COLORS[mode]
    axes.plot(x, values.T, color=color, linewidth=0.6, alpha=0.6)
    axes.plot(
        x,
        values.mean(axis=0),
        marker + "-",
        color=color,
        linewidth=2,
        label=f"{mode}, mean of {len(values)} runs",
    )


def caption(found: Results) -> str:
    """Tell what is drawn, with the share of tokens that converged.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("convergence").results))
        Search for the fixed points of implicit Mamba-2 trained on parity at length 32: 8 sequences ...
    """
    settings, seeds = found["settings"], found["seeds"].values()
    shares = "; ".join(
        f"{mode} {min(numbers[mode]['share_converged'] for numbers in seeds):.2%}" for mode in MODES
    )
    return (
        f"Search for the fixed points of implicit Mamba-2 trained on parity at length 32: "
        f"{settings['sequences']} sequences of {settings['length']} tokens (data seed {settings['seed']}), "
        f"float64, damped Picard to a relative residual of {settings['rtol']:g}. Thin lines are single runs, "
        "thick ones their mean. Simultaneous mode evaluates all tokens until the last is done, sequential "
        "mode each token until it is done. "
        f"Smallest share of converged tokens of any run: {shares}."
    )


FIGURE = PaperFigure(
    name="convergence",
    title="The search for the fixed points",
    runs=tuple(RunRecipe("parity", "implicit-mamba2", seed) for seed in SEEDS),
    compute=compute,
    draw=draw,
    caption=caption,
)
