"""The search for the fixed points on parity: residuals, and iterations against position and length."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import log_axis, new_panels, powers_of_two
from analysis.framework.palette import GREY, MODE_LOOKS, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import draw_legend, grouped

SETTINGS = ConvergenceSettings(sequences=8, length=256, rtol=1e-6, max_iterations=2000, seed=0)


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


def _runs(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What was measured, by seed; the grid has one group."""
    return {seed: run for group in found["groups"] for seed, run in group["seeds"].items()}


def draw(found: Results, width: float) -> Figure:
    """Draw residuals of the first run, and iterations against position and length of all runs.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("convergence").results, 6.75).axes)
        3
    """
    figure, (residual, position, length) = new_panels(width, 3, height=2.75)
    runs = _runs(found)
    shown = next(iter(runs), "none")
    for mode in MODES if runs else ():
        look, measured = MODE_LOOKS[mode], [numbers[mode] for numbers in runs.values()]
        _draw_residuals(residual, runs[shown][mode], look, mode)
        medians = [numbers["iterations_by_position"]["median"] for numbers in measured]
        positions = np.arange(1, len(medians[0]) + 1)
        draw_runs(position, positions, medians, Look(look.color), mode)
        _draw_lengths(length, measured, look, mode)
    residual.axhline(found["settings"]["rtol"], color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
    log_axis(residual)
    residual.set(
        title=f"residual over tokens (seed {shown})",
        xlabel="self-iteration",
        ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖",
    )
    position.set(
        title="self-iterations until the tolerance",
        xlabel="position of the token",
        ylabel="self-iterations per token (median)",
        ylim=(0, None),
    )
    log_axis(length)
    length.set(
        title="cost of a sequence",
        xlabel="length (tokens)",
        ylabel="evaluations of Φ per sequence",
    )
    for axes in (residual, position, length):
        draw_legend(axes)
    return figure


def _draw_residuals(axes: Axes, numbers: dict[str, Any], look: Look, label: str) -> None:
    levels = {level: np.array(values) for level, values in numbers["residual_by_iteration"].items()}
    steps = np.arange(1, len(levels["0.5"]) + 1)
    for low, high, alpha in (("0.01", "0.99", 0.15), ("0.25", "0.75", 0.3)):
        axes.fill_between(steps, levels[low], levels[high], color=look.color, alpha=alpha, linewidth=0)
    axes.plot(steps, levels["0.5"], color=look.color, label=f"{label}, median")


def _draw_lengths(axes: Axes, runs: list[dict[str, Any]], look: Look, label: str) -> None:
    lengths = [int(length) for length in runs[0]["by_length"]]
    costs = [
        [numbers["by_length"][str(length)]["token_evaluations"] for length in lengths] for numbers in runs
    ]
    draw_runs(axes, lengths, costs, look, label)
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
        f"float64, damped Picard to a relative residual of {settings['rtol']:g}. Residuals: "
        f"run of seed {next(iter(_runs(found)), 'none')}, median over its tokens, bands of the middle 50% "
        "and 98% "
        "of them. Self-iterations are the median of a position, the cost, tokens times self-iterations, is "
        "the mean of a sequence. "
        f"{RUN_LINES} Simultaneous mode evaluates all tokens until the last is done, sequential "
        "mode each token until it is done. "
        f"Smallest share of converged tokens of any run: {shares}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that both modes find the fixed point of every token.

    Reproduced if every token of every run converged in both modes, not reproduced if none did in one of
    them; partly otherwise.

    Example:
        >>> judge({"settings": {"rtol": 1e-6}, "groups": []}).word
        'not reproduced'
    """
    runs = _runs(found).values()
    worst = {mode: min((run[mode]["share_converged"] for run in runs), default=0.0) for mode in MODES}
    because = (
        f"smallest share of tokens of parity that converged to {found['settings']['rtol']:g} in a run: "
        + ", ".join(f"{share:.2%} {mode}" for mode, share in worst.items())
        + f" (at most {found['settings'].get('max_iterations', 0):,} self-iterations); whether both end in "
        "the same fixed points is not judged"
    )
    if min(worst.values()) == 0:
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if min(worst.values()) == 1 else "partly", because)


FIGURE = PaperFigure(
    title="The search for the fixed points",
    claim=Claim("the simultaneous and the sequential mode both find fixed points", IMPLICIT_ARE_RNNS, judge),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
