"""From the constructed filter to the trained model: who holds the belief about hidden swaps, and how long."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.belief.exact import exact_sequences
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.registry import registered_task
from paper_figures import figure as pf
from paper_figures.families import family, look
from paper_figures.figures.hidden_swaps import GRIDS, TASK, TRAINED_LENGTH
from paper_figures.measurements.beliefs import (
    BridgeSettings,
    ErrorSettings,
    belief_errors,
    bridge,
    filter_divergences,
)

SHOWN = (
    "implicit Mamba-2",
    "LSTM",
    "DeltaNet [-1, 1]",
    "gated DeltaNet [-1, 1]",
    "gated DeltaProduct [-1, 1]",
)
"""Two models that are not linear in their state, and the three nearest of those that are."""
FILTERS = {
    "implicit": ("implicit Bayes filter, constructed", "#0072B2", "-"),
    "linear float32": ("linear filter, float32", "#D55E00", "-"),
    "linear bfloat16": ("linear filter, bfloat16", "#D55E00", ":"),
}
SETTINGS = BridgeSettings(mode="sequential")
ROUNDING, BETWEEN = 1e-17, 5e-4
"""Smaller divergences are drawn at the first; the upper panel ends at the second, the lower begins there."""

Places = Sequence[Mapping[str, Any]]


def _curve(places: Places) -> tuple[list[float], list[float]]:
    """Return the middles of bins of positions, and what is drawn there."""
    middles = [float(np.sqrt(place["from"] * (place["to"] + 1))) for place in places]
    means = [np.nan if place["mean"] is None else max(place["mean"], ROUNDING) for place in places]
    return middles, means


def _filters() -> dict[str, Places]:
    """Return the divergences of the filters, which depend on the task alone, on the sequences of the runs."""
    task, length = registered_task(TASK), TRAINED_LENGTH * max(SETTINGS.multiples)
    assert isinstance(task, PartiallyObserved)
    exact = exact_sequences(task, SETTINGS.sequences, length, SETTINGS.seed, kept=[])
    return filter_divergences(task, exact)


def _panel(low: float, high: float) -> pf.Drawn:
    lines = pf.Lines(
        lambda run: _curve([place for place in run.values["by_position"] if place["mean"] is not None]),
        xlabel="position (tokens)",
        ylabel="KL (nats)",
        trained=(TRAINED_LENGTH,),
        ylim=None,
        yscale="log",
        xticks=((1, 8, 64, 512, 2048), ("1", "8", "64", "512", "2,048")),
    )

    def draw(axes: Axes, rows: pf.Rows) -> None:
        for name, places in rows.shared["filters"].items():
            label, color, dashes = FILTERS[name]
            axes.plot(*_curve(places), color=color, linestyle=dashes, marker=".", markersize=3, label=label)
        lines.draw(axes, rows)
        axes.set_ylim(low, high)

    return pf.Drawn(draw)


def _last(run: pf.MeasuredRun) -> float:
    return float(run.values["by_position"][-1]["mean"])


def _at_training(run: pf.MeasuredRun) -> float:
    return float([place["mean"] for place in run.values["by_position"] if place["from"] < TRAINED_LENGTH][-1])


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Compare the last bin of positions with the linear filter in float32.

    Reproduced if every run of implicit Mamba-2 is nearer to the posterior, and at most twice as far as at the
    training length; not reproduced if no run is nearer; partly otherwise.
    """
    place = rows.shared["filters"]["linear float32"][-1]
    linear = float("inf") if place["mean"] is None else float(place["mean"])
    named = {row.label: row for row in rows}
    because = (
        f"KL at tokens {place['from']:,} to {place['to']:,}, in nats: linear filter in float32 {linear:.3g}, "
    ) + "; ".join(f"{name} {', '.join(f'{_last(run):.4f}' for run in named[name].runs)}" for name in SHOWN)
    runs = named[SHOWN[0]].runs
    kept = all(_last(run) < linear and _last(run) <= 2 * _at_training(run) for run in runs)
    return pf.graded(kept, any(_last(run) < linear for run in runs), because)


FIGURE = pf.Figure(
    title="A belief held by construction and by training",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "an implicit SSM, trained in parallel, predicts by a belief that the linear filter without division "
        "loses",
        pf.OURS,
        _judge,
    ),
    runs=tuple(grid for grid in GRIDS if family(grid.points[0].settings) in SHOWN),
    measure=(
        pf.Measurement("bridge", bridge, SETTINGS),
        pf.Measurement(
            "belief_errors",
            belief_errors,
            ErrorSettings(),
            {"left": "error_left", "exact": "error_left_exact", "share_converged": "error_share_converged"},
        ),
    ),
    shared={"filters": _filters},
    label=family,
    looks=look,
    panels=[_panel(BETWEEN, 2), _panel(ROUNDING / 3, BETWEEN)],
    layout=pf.Layout(columns=(1, 1), height=(4.6, 5.4), share=("all", "none"), legend=(2, 1)),
)
