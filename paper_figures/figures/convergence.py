"""The search for the fixed points on parity: residuals, and iterations against position and length."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import COLORS, GREY, powers_of_two
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import GroupStyle, draw_legend, draw_runs, grouped

SETTINGS = ConvergenceSettings(sequences=8, length=256, rtol=1e-6, max_iterations=1000, seed=0)
MODE_STYLES = {mode: GroupStyle(mode, color) for mode, color in zip(MODES, COLORS, strict=False)}
MODE_MARKERS = dict(zip(MODES, "os", strict=True))


def measure(run: Run, settings: ConvergenceSettings) -> dict[str, Any]:
    """Follow the fixed-point iteration of a run in both modes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> sorted(measure(load_run("parity"), ConvergenceSettings(sequences=1, length=2)))
        ['sequential', 'simultaneous']
    """
    return analyse(run, settings).numbers()


EXPERIMENT = Experiment(
    "convergence",
    (Grid({"seed": range(5)}, {"task": "parity", "model": "implicit-mamba2"}),),
    (Measurement("convergence", measure, SETTINGS),),
)


def collect(outcomes: Sequence[Outcome], settings: ConvergenceSettings = SETTINGS) -> Results:
    """Collect what was measured of every run.

    Example:
        >>> collect([])["groups"]
        []
    """
    return {"settings": settings.model_dump(mode="json"), "groups": grouped(outcomes, "convergence")}


def _runs(found: Results) -> dict[str, dict[str, Any]]:
    """What was measured, by seed; the grid has one group."""
    return {seed: run for group in found["groups"] for seed, run in group["seeds"].items()}


def draw(found: Results) -> Figure:
    """Draw residuals of the first run, and iterations against position and length of all runs.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("convergence").results).axes) >= 3
        True
    """
    figure = Figure(figsize=(10.5, 4), layout="constrained")
    residual, position, length = figure.subplots(1, 3)
    runs = _runs(found)
    shown = next(iter(runs), "none")
    for mode in MODES if runs else ():
        _draw_residuals(residual, runs[shown][mode], MODE_STYLES[mode])
        measured = [numbers[mode] for numbers in runs.values()]
        _draw_positions(position, measured, MODE_STYLES[mode])
        _draw_lengths(length, measured, replace(MODE_STYLES[mode], marker=MODE_MARKERS[mode]))
    tolerance = found["settings"]["rtol"]
    residual.axhline(tolerance, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
    residual.set(
        title=f"residual over tokens (seed {shown})",
        xlabel="self-iteration",
        ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖",
        yscale="log",
    )
    residual.set_ylim(tolerance * 1e-6, None)  # space for the legend
    residual.legend(title="median; middle 50% and 98%", title_fontsize=7.5, loc="lower right")
    position.set(
        title="self-iterations until the tolerance",
        xlabel="position of the token",
        ylabel="self-iterations per token (median)",
        ylim=(0, None),
    )
    draw_legend(position)
    length.set(
        title="cost of a sequence",
        xlabel="length (tokens)",
        ylabel="evaluations of Φ, tokens × iterations",
        yscale="log",
    )
    draw_legend(length)
    return figure


def _draw_residuals(axes: Axes, numbers: dict[str, Any], style: GroupStyle) -> None:
    levels = {level: np.array(values) for level, values in numbers["residual_by_iteration"].items()}
    steps = np.arange(1, len(levels["0.5"]) + 1)
    for low, high, alpha in (("0.01", "0.99", 0.15), ("0.25", "0.75", 0.3)):
        axes.fill_between(steps, levels[low], levels[high], color=style.color, alpha=alpha, linewidth=0)
    axes.plot(steps, levels["0.5"], color=style.color, label=style.label)


def _draw_positions(axes: Axes, runs: list[dict[str, Any]], style: GroupStyle) -> None:
    medians = [numbers["iterations_by_position"]["median"] for numbers in runs]
    draw_runs(axes, np.arange(1, len(medians[0]) + 1), medians, style)


def _draw_lengths(axes: Axes, runs: list[dict[str, Any]], style: GroupStyle) -> None:
    lengths = [int(length) for length in runs[0]["by_length"]]
    costs = [
        [numbers["by_length"][str(length)]["token_evaluations"] for length in lengths] for numbers in runs
    ]
    draw_runs(axes, lengths, costs, style)
    powers_of_two(axes, lengths)


def caption(found: Results) -> str:
    """Tell what is drawn, with the share of tokens that converged.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("convergence").results))
        Search for the fixed points of implicit Mamba-2 trained on parity at length 32: 8 sequences ...
    """
    settings, runs = found["settings"], _runs(found).values()
    shares = "; ".join(
        f"{mode} {min(numbers[mode]['share_converged'] for numbers in runs):.2%}" for mode in MODES if runs
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
    title="The search for the fixed points",
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
