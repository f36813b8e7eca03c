"""The search for the fixed points on parity: residuals, and iterations against position and length."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import log_axis
from analysis.framework.palette import GREY, MODE_LOOKS, Look
from implicit.runs.loading import Run
from paper_figures import figure as pf

SETTINGS = ConvergenceSettings(sequences=8, length=256, rtol=1e-6, max_iterations=2000, seed=0)


def measure(run: Run, settings: ConvergenceSettings) -> dict[str, Any]:
    """Follow the fixed-point iteration of a run in both modes."""
    return analyse(run, settings).numbers()


def _residuals(axes: Axes, rows: pf.Rows) -> None:
    """Draw the median residual of the first run, and the middle 50% and 98% of its tokens."""
    for mode in MODES:
        levels = rows[0].runs[0].values[mode]["residual_by_iteration"]
        color, steps = MODE_LOOKS[mode].color, np.arange(1, len(levels["0.5"]) + 1)
        for low, high, alpha in (("0.01", "0.99", 0.15), ("0.25", "0.75", 0.3)):
            axes.fill_between(steps, levels[low], levels[high], color=color, alpha=alpha, linewidth=0)
        axes.plot(steps, levels["0.5"], color=color)
    axes.axhline(SETTINGS.rtol, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
    log_axis(axes)
    axes.set(title="residual (seed 0)", xlabel="self-iteration", ylabel="‖Φ(z) − z‖ / ‖z‖")


def _by_position(mode: str, run: pf.MeasuredRun) -> tuple[range, list[float]]:
    return range(1, SETTINGS.length + 1), run.values[mode]["iterations_by_position"]["median"]


def _evaluations(mode: str, run: pf.MeasuredRun) -> dict[str, float]:
    by_length = run.values[mode]["by_length"]
    return {length: found["token_evaluations"] for length, found in by_length.items()}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Reproduced if every token of every run converged in both modes; not if none did in one of them."""
    worst = {mode: min(rows[0].each(f"{mode}@share_converged")) for mode in MODES}
    because = (
        f"smallest share of tokens of parity that converged to {SETTINGS.rtol:g} in a run: "
        + ", ".join(f"{share:.2%} {mode}" for mode, share in worst.items())
        + f" (at most {SETTINGS.max_iterations:,} self-iterations)"
    )
    if min(worst.values()) == 0:
        return pf.Verdict("not reproduced", because)
    return pf.Verdict("reproduced" if min(worst.values()) == 1 and not rows[0].failed else "partly", because)


FIGURE = pf.Figure(
    title="The search for the fixed points",
    section="Fixed points",
    claim=pf.Claim(
        "the simultaneous and the sequential mode both find fixed points", pf.IMPLICIT_ARE_RNNS, _judge
    ),
    runs=(pf.Grid({"seed": range(5)}, {"task": "parity", "model": "implicit-mamba2"}),),
    measure=(pf.Measurement("convergence", measure, SETTINGS),),
    panels=[
        pf.Drawn(_residuals),
        pf.Lines(
            {mode: (partial(_by_position, mode), Look(MODE_LOOKS[mode].color)) for mode in MODES},
            xlabel="position (tokens)",
            ylabel="self-iterations (median)",
            title="until the tolerance",
            xscale="linear",
            ylim=(0, None),
        ),
        pf.Lines(
            {mode: (partial(_evaluations, mode), MODE_LOOKS[mode]) for mode in MODES},
            xlabel="length (tokens)",
            ylabel="evaluations of Φ",
            title="cost of a sequence",
            yscale="log",
            ylim=None,
        ),
    ],
    layout=pf.Layout(
        columns=(3, 1),
        height=(2.6, 6.6),
        share=("none", "none"),
        legend=(3, 2),
        keys={**{mode: MODE_LOOKS[mode] for mode in MODES}, "tolerance": Look(GREY, "", "--")},
    ),
)
