"""From the constructed filter to the trained model: who holds the belief about hidden swaps, and how long."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.framework.figures import log_axis, new_figure
from analysis.framework.palette import GREY
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.framework.visited_states import TIGHT_RTOL
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.belief_errors import ERRORS
from paper_figures.figures.belief_errors import SETTINGS as ERROR_SETTINGS
from paper_figures.figures.bridge_measured import BRIDGE, SETTINGS
from paper_figures.figures.claim import Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.hidden_training import GRIDS, TRAINED_LENGTH
from paper_figures.figures.repl_traces import look_of, series_name

SHOWN = (
    "implicit Mamba-2",
    "LSTM",
    "DeltaNet [-1, 1]",
    "gated DeltaNet [-1, 1]",
    "gated DeltaProduct [-1, 1]",
)
"""Trained models: two that are not linear in their state, and the three nearest of those that are."""
EXPERIMENT = Experiment(
    "belief_bridge",
    tuple(grid for grid in GRIDS if series_name(grid.points[0].settings) in SHOWN),
    (BRIDGE, ERRORS),
)
FILTERS = {
    "implicit": ("implicit Bayes filter, constructed", "#0072B2", "-"),
    "linear float32": ("linear filter, float32", "#D55E00", "-"),
    "linear bfloat16": ("linear filter, bfloat16", "#D55E00", ":"),
}
SMALLEST = 1e-17
"""What is drawn of smaller divergences, which are rounding."""
SMALLEST_ERROR = TIGHT_RTOL / ERROR_SETTINGS.size
"""What can be told of an error that is left, over the error at first."""
BETWEEN = 5e-4
"""What the upper panel begins at, and the lower one ends at."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect the divergences by position, those of the filters, and Theorem 1 of every implicit run.

    Example:
        >>> collect([])["series"]
        {}
    """
    series: dict[str, Any] = {}
    filters: dict[str, Any] = {}
    for group, errors in zip(grouped(outcomes, BRIDGE.name), grouped(outcomes, ERRORS.name), strict=True):
        settings = group["settings"]
        seeds = {}
        for seed, run in group["seeds"].items():
            filters = filters or run["filters"]
            theorem1 = run["theorem1"]
            seeds[seed] = {
                "by_position": [place for place in run["by_position"] if place["mean"] is not None],
                "unconverged": run["unconverged"],
                "theorem1": theorem1
                and {name: theorem1[name] for name in ("verdict", "states", "counts", "spectral_radius")},
            }
        series[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "seeds": seeds,
            "failed": group["failed"],
            "errors": errors["seeds"],
        }
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "error_settings": ERROR_SETTINGS.model_dump(mode="json"),
        "trained_length": TRAINED_LENGTH,
        "filters": filters,
        "series": series,
    }


def _middle(place: Mapping[str, Any]) -> float:
    return float(np.sqrt(place["from"] * (place["to"] + 1)))


def draw(found: Results, width: float) -> Figure:
    """Draw the divergence of every run and filter against the position; small ones in the lower panel.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("belief_bridge").results, 3.3).axes)
        2
    """
    figure = new_figure(width, 5.0 if width < 5 else 4.4)
    panels = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes in panels:
        for name, places in found["filters"].items():
            label, color, dashes = FILTERS[name]
            axes.plot(
                [_middle(place) for place in places],
                [np.nan if place["mean"] is None else max(place["mean"], SMALLEST) for place in places],
                color=color,
                linestyle=dashes,
                marker=".",
                markersize=3,
                label=label,
            )
        for name, series in found["series"].items():
            runs = [run["by_position"] for run in series["seeds"].values()]
            if runs:
                means = [[max(place["mean"], SMALLEST) for place in run] for run in runs]
                places = [_middle(place) for place in runs[0]]
                draw_runs(axes, places, means, look_of(series), name, breadth=1.0)
        axes.axvline(
            found["trained_length"], color=GREY, linewidth=0.9, linestyle="--", label="training length"
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        log_axis(axes)
    panels[0].set_ylim(BETWEEN, 2)
    panels[1].set_ylim(SMALLEST / 3, BETWEEN)
    panels[1].set_yticks([1e-16, 1e-12, 1e-8, 1e-4], ["1e-16", "1e-12", "1e-8", "1e-4"])
    lengths = [1, 8, 64, 512, 2048]
    panels[1].set_xticks(lengths, [f"{length:,}" for length in lengths])
    panels[1].minorticks_off()
    panels[1].set_xlabel("position (tokens)")
    figure.supylabel("KL from the posterior (nats)", fontsize=7.5)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 2
    )
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn, and what Theorem 1 says of the trained implicit model.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("belief_bridge").results))
        From the constructed filter to trained models on hidden swaps: ...
    """
    settings = found["settings"]
    checked = [
        run["theorem1"]
        for series in found["series"].values()
        for run in series["seeds"].values()
        if run["theorem1"] is not None
    ]
    theorem1 = (
        "; ".join(f"{one['counts']['holds']} of {one['states']} states" for one in checked) or "not checked"
    )
    longest = max(settings["multiples"]) * found["trained_length"]
    return (
        "From the constructed filter to trained models on hidden swaps: mean KL divergence of the predicted "
        "from the exact distribution of the revealed value, by position, over "
        f"{settings['sequences']} fresh sequences of {longest:,} tokens, data seed {settings['seed']}. The "
        "exact filter itself is at 0; the constructed implicit SSM computes Bayes' rule at its fixed point, "
        "in float64; the linear filter is the same without the division, read as probabilities after one, "
        "and as the uniform belief once nothing is left of its mass; where it is infinite, because a value "
        "that occurs was held for impossible, nothing is drawn. Means at most "
        f"{SMALLEST:g}, negative by rounding or 0, are drawn there. {RUN_LINES} Trained models as in the "
        f"figure of hidden swaps (without Mamba-2, DeltaNet [0, 1] and the Transformer, which are farther), "
        f"implicit ones in {settings['mode']} mode, to a relative tolerance of "
        f"{settings['rtol']:g} or for {settings['max_iterations']} self-iterations: the share of tokens "
        f"without a converged fixed point, whose answers count as they are, is {_unconverged(found)}. The "
        f"conclusions of Theorem 1 hold for the runs of implicit Mamba-2 at {theorem1} visited. "
        f"{_errors(found)}"
    )


def _errors(found: Mapping[str, Any]) -> str:
    """What is left of errors, of every run in the median over pairs, and of the exact filter."""
    settings = found["error_settings"]
    here, there = min(settings["follow"]), max(settings["follow"])
    left = []
    exact: list[float] = []
    converged: list[float] = []
    for name, series in found["series"].items():
        runs = list(series["errors"].values())
        if runs:
            values = (
                " and ".join(_left(run["left"][str(after)][1]) for after in (here, there)) for run in runs
            )
            left.append(f"{name} {'; '.join(values)}")
            converged.extend(run["share_converged"] for run in runs)
            exact.extend(run["exact"][str(here)][2] for run in runs)
    if not left:
        return "Errors in the state were not measured."
    reached = math.floor(1e4 * min(converged)) / 1e4
    return (
        f"Error control, in float64: an error in the state after {settings['length']} tokens, as large as "
        f"{settings['size']:g} of the way to the state after another sequence with the same last tokens, and "
        f"then the same tokens as without it; of its norm there is left after {here} and after {there} "
        f"tokens, of each run the median over {settings['pairs']} pairs: {', '.join(left)} (to a relative "
        f"tolerance of {TIGHT_RTOL:g}, which a share of at least {reached:.4f} "
        "of the fixed points reached). Of the total "
        f"variation between the two exact beliefs {max(exact):.2g} is left after {here} tokens in three "
        "pairs of four."
    )


def _left(share: float) -> str:
    """What is left of an error; what is smaller is what the tolerance and rounding leave of it."""
    return f"{share:.2g}" if share >= SMALLEST_ERROR else f"less than {SMALLEST_ERROR:g}"


def _unconverged(found: Mapping[str, Any]) -> str:
    """The share of each implicit run, in words."""
    shares = [
        f"{run['unconverged']:.3f}"
        for series in found["series"].values()
        for run in series["seeds"].values()
        if run["unconverged"] is not None
    ]
    return ", ".join(shares) or "not measured"


def last_divergences(found: Mapping[str, Any], name: str) -> list[float]:
    """Return the divergences of every run of a series in the last bin of positions.

    Example:
        >>> last_divergences({"series": {}}, "LSTM")
        []
    """
    series = found["series"].get(name, {"seeds": {}})
    return [run["by_position"][-1]["mean"] for run in series["seeds"].values()]


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that an implicit SSM predicts by a belief where the linear filter has lost it.

    Reproduced if in the last bin of positions the linear filter in float32 is farther from the posterior than
    every run of implicit Mamba-2, and each of these is at most twice as far as it is at the training length;
    not reproduced if no run is nearer than the linear filter; partly otherwise. Trained linear RNNs, which
    are told of, are not judged by: a gated one can keep it too.

    Example:
        >>> judge({"series": {}, "filters": {}}).word
        'not reproduced'
    """
    runs = found["series"].get("implicit Mamba-2", {"seeds": {}})["seeds"].values()
    linear = found["filters"].get("linear float32", [])
    if not runs or not linear:
        return Verdict("not reproduced", "no run ended well")
    last = [run["by_position"][-1]["mean"] for run in runs]
    place = linear[-1]
    at_last = float("inf") if place["mean"] is None else float(place["mean"])
    because = (
        f"KL at tokens {place['from']:,} to {place['to']:,}, in nats: linear filter in float32 "
        f"{at_last:.3g}, "
    ) + "; ".join(
        f"{name} {', '.join(f'{value:.4f}' for value in last_divergences(found, name))}"
        for name in SHOWN
        if name in found["series"]
    )
    nearer = [value < at_last for value in last]
    kept = [run["by_position"][-1]["mean"] <= 2 * _at_training(run, found["trained_length"]) for run in runs]
    if not any(nearer):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if all(nearer) and all(kept) else "partly", because)


def _at_training(run: Mapping[str, Any], length: int) -> float:
    """The divergence in the bin before the training length."""
    return float([place["mean"] for place in run["by_position"] if place["from"] < length][-1])


FIGURE = PaperFigure(
    title="A belief held by construction and by training",
    claim=Claim(
        "an implicit SSM, trained in parallel, predicts by a belief that the linear filter without division "
        "loses",
        "asked by this toolkit, 2026; claimed by nobody that we know of",
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
