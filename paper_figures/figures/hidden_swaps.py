"""Swaps that may fail unseen: who holds the belief, against length and against the frequency of reveals?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.belief.probe import MOST_FEATURES
from analysis.framework.figures import log_axis, new_figure, powers_of_two
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.hidden_measured import BELIEF, SETTINGS
from paper_figures.figures.hidden_training import GRIDS, TASK, TRAINED_LENGTH, TRAINING
from paper_figures.figures.repl_traces import legend_of_all, line_widths, look_of, series_name
from paper_figures.figures.repl_training import CLIPPING

EXPERIMENT = Experiment("hidden_swaps", GRIDS, (BELIEF,))

LENGTHS = tuple(multiple * TRAINED_LENGTH for multiple in SETTINGS.multiples)
TESTED_LENGTH = LENGTHS[-1]
TRAINED_PROBABILITY = 1 / 4
"""That an event is a reveal, in training."""
NOT_LINEAR = ("LSTM", "implicit Mamba-2", "Transformer")
"""Models whose layers are not each affine in their own state before, given what the layer reads."""
PROJECTED = "Mamba-2"
"""The model whose state is too large for the probe to be read as it is."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect by series and seed what was measured.

    Example:
        >>> collect([])["series"]
        {}
    """
    series = {}
    for group in grouped(outcomes, BELIEF.name):
        settings = group["settings"]
        series[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "seeds": group["seeds"],
            "failed": group["failed"],
        }
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "trained_length": TRAINED_LENGTH,
        "lengths": list(LENGTHS),
        "series": series,
    }


def divergences(series: Mapping[str, Any], length: int) -> list[float]:
    """Return the divergence of every run at a length, in nats; infinite if it is not finite.

    Example:
        >>> divergences({"seeds": {"0": {"by_length": {"64": {"kl": {"mean": 0.1}}}}}}, 64)
        [0.1]
    """
    return [_nats(run["by_length"][str(length)]["kl"]) for run in series["seeds"].values()]


def _nats(estimate: Mapping[str, Any]) -> float:
    """Return a mean; JSON has None for what is not finite."""
    return math.inf if estimate["mean"] is None else float(estimate["mean"])


def draw(found: Results, width: float) -> Figure:
    """Draw divergence by length and by frequency, the belief in the state, and the norm of the state.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("hidden_swaps").results, 3.3).axes)
        4
    """
    narrow = width < 5
    figure = new_figure(width, 6.0 if narrow else 4.6)
    (by_length, by_frequency), (belief, norm) = figure.subplots(2, 2)
    lengths, chosen = found["lengths"], found["settings"]["reveal_probabilities"]
    widths = line_widths({TASK: found["series"]})
    for name, series in found["series"].items():
        runs, look = list(series["seeds"].values()), look_of(series)
        breadth = widths[name]
        divergence = np.transpose([divergences(series, length) for length in lengths])
        draw_runs(by_length, lengths, divergence, look, name, breadth=breadth)
        frequencies = [[_nats(run["by_reveal_probability"][str(p)]) for p in chosen] for run in runs]
        draw_runs(by_frequency, chosen, frequencies, look, name, breadth=breadth)
        if runs and runs[0]["belief"]:
            distances = [[run["belief"][str(n)]["distance"]["mean"] for n in lengths] for run in runs]
            draw_runs(belief, lengths, distances, look, name, breadth=breadth)
        if runs and runs[0]["norms"]:
            layers = [run["norms"][-1] for run in runs]
            plain = Look(look.color, dashes=look.dashes)  # markers would hide one another
            draw_runs(
                norm, layers[0]["tokens"], [layer["median"] for layer in layers], plain, name, breadth=breadth
            )
    _finish(found, by_length, by_frequency, belief, norm)
    legend_of_all(figure, [by_length], 2 if narrow else 4)
    return figure


def _finish(found: Results, by_length: Axes, by_frequency: Axes, belief: Axes, norm: Axes) -> None:
    lengths, chosen = found["lengths"], found["settings"]["reveal_probabilities"]
    constants = [
        run["belief"][str(length)]["constant"]["mean"]
        for series in found["series"].values()
        for run in series["seeds"].values()
        if run["belief"]
        for length in lengths
    ]
    if constants:
        belief.axhline(float(np.mean(constants)), color=GREY, linewidth=0.9, linestyle=":")
    for axes in (by_length, belief, norm):
        ticks = [1, 8, lengths[0], lengths[-1]] if axes is norm else lengths
        powers_of_two(axes, ticks)
        axes.set_xlim(ticks[0] / 1.15, ticks[-1] * 1.15)
        axes.axvline(found["trained_length"], color=GREY, linewidth=0.9, linestyle="--")
        axes.set_xlabel("position (tokens)" if axes is norm else "length (tokens)")
    by_frequency.set_xscale("log", base=2)
    by_frequency.set_xticks(chosen, [f"1/{round(1 / p)}" for p in chosen])
    by_frequency.minorticks_off()
    by_frequency.set_xlim(chosen[0] / 1.15, chosen[-1] * 1.15)
    by_frequency.axvline(TRAINED_PROBABILITY, color=GREY, linewidth=0.9, linestyle="--")
    by_frequency.set_xlabel("share of reveals")
    for axes in (by_length, by_frequency):
        log_axis(axes)
        axes.set_ylabel("KL from the posterior (nats)")
    belief.set(ylabel="total variation", ylim=(0, 1))
    log_axis(norm)
    norm.set_ylabel("norm of the last layer's state")
    for axes, title in zip(
        (by_length, by_frequency, belief, norm),
        ("(a) prediction, by length", "(b) by reveals", "(c) belief decoded", "(d) state"),
        strict=True,
    ):
        axes.set_title(title, fontsize=7.5)


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how far each is from the posterior.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("hidden_swaps").results))
        Three variables whose swaps are read, each as one token and not as text, but fail unseen ...
    """
    settings = found["settings"]
    start, growth = TRAINING["start_length"], TRAINING["length_growth"]
    every = TRAINING["length_growth_every"]
    return (
        "Three variables whose swaps are read, each as one token and not as text, but fail unseen one time "
        "in ten; of what follows one another, one event in four is no swap but a reveal, of one "
        "variable, whose value is the token after it. "
        "(a) KL divergence of the predicted from the exact distribution of the revealed value, mean over the "
        "reveals from the length before to this one, (b) the same at the training length, where reveals are "
        "rarer or more frequent than in training, too, (c) total variation between the exact belief over the "
        f"six arrangements and what a linear probe decodes from the state, at the last {settings['window']} "
        "tokens of each length (dotted: from the mean belief, a constant; mean over runs and lengths), "
        "(d) norm of the recurrent state of the last layer, without what a convolution keeps, median over "
        "sequences; the Transformer, whose state grows, is neither in c nor in d. "
        f"{settings['sequences']} freshly drawn sequences, {settings['sequences']} others at each frequency "
        f"in b, data seed {settings['seed']}, the same for all models; the probe reads all of the state, "
        f"that of {PROJECTED} through a random projection to {MOST_FEATURES:,} numbers, and is fitted to "
        f"{settings['probe_sequences']} others of the training length. Implicit models in "
        f"{settings['mode']} mode, to a relative tolerance of {settings['rtol']:g} or for "
        f"{settings['max_iterations']} self-iterations. {RUN_LINES} Lines are drawn broader the earlier they "
        f"stand in the legend. Dashed: as in training, {found['trained_length']} tokens and one event in "
        f"four. {TRAINING['steps']:,} updates of {TRAINING['batch_size']} sequences, whose length grows from "
        f"{start} tokens by {growth} every {every} updates, the same for all models "
        f"of a seed; a peak rate of {TRAINING['learning_rate']:g}, tried on LSTM, DeltaNet and implicit "
        f"Mamba-2 before, {CLIPPING}; width 64 (LSTM: 128), two layers (LSTM, implicit Mamba-2: one), MLPs "
        f"in the Transformer only, not matched in parameters. {_rates(found)} Divergence of each run at "
        f"{TESTED_LENGTH} tokens, in nats, with its 95% interval over sequences: {_table(found)}."
    )


def _rates(found: Results) -> str:
    """Tell how fast the mass of the exact linear filter falls, and how the norms of linear models change."""
    every = [(name, run) for name, series in found["series"].items() for run in series["seeds"].values()]
    exact = [run["exact_rate"]["per_token"] for _, run in every]
    if not exact:
        return "No run ended well."
    fitted = [
        layer["rate_per_token"]["per_token"]
        for _, run in every
        if run["linear"]
        for layer in run["norms"]
        if layer["rate_per_token"]["per_token"] is not None
    ]
    norms = (
        f"the logarithm of the norm of a linear model's layers changes by {min(fitted):+.4f} to "
        f"{max(fitted):+.4f} per token (slopes fitted to the second half of the sequences)"
        if fitted
        else "of no linear model a norm was measured"
    )
    return f"The unnormalised exact filter loses {-np.mean(exact):.3f} nats of log mass per token; {norms}."


def _table(found: Mapping[str, Any]) -> str:
    """Return the divergences of every run at the tested length, with their intervals, in words."""
    parts = []
    for name, series in found["series"].items():
        estimates = [run["by_length"][str(TESTED_LENGTH)]["kl"] for run in series["seeds"].values()]
        parts.append(f"{name} {', '.join(map(_with_interval, estimates)) or 'no run'}")
    return "; ".join(parts)


def _with_interval(estimate: Mapping[str, Any]) -> str:
    mean = f"{_nats(estimate):.4f}"
    if estimate["low"] is None or estimate["high"] is None:
        return mean
    return f"{mean} ({estimate['low']:.4f} to {estimate['high']:.4f})"


def comparison(found: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the best linear model with each that is not, by their runs' divergences at the tested length.

    The best linear model is the one with the least mean over its runs at the *training* length, so that it is
    not chosen by what is compared.

    Returns:
        Its name and runs, those of the other linear models, and those of the others; empty if there is no
        linear run.

    Example:
        >>> comparison({"series": {}})
        {}
    """
    linear = {
        name: series for name, series in found["series"].items() if name not in NOT_LINEAR and series["seeds"]
    }
    if not linear:
        return {}
    best = min(linear, key=lambda name: float(np.mean(divergences(linear[name], TRAINED_LENGTH))))
    others = {
        name: divergences(found["series"][name], TESTED_LENGTH)
        for name in NOT_LINEAR
        if found["series"].get(name, {}).get("seeds")
    }
    return {
        "best": best,
        "linear": divergences(linear[best], TESTED_LENGTH),
        "also linear": {
            name: divergences(series, TESTED_LENGTH) for name, series in linear.items() if name != best
        },
        "others": others,
    }


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that linear RNNs can hold a belief worse than RNNs that are not linear.

    Reproduced if at the longest length every run of the linear model that is best at the training length is
    farther from the posterior than every run of the LSTM and of implicit Mamba-2; not reproduced if its mean
    is below both of theirs, or that of the one that ended well; partly otherwise. The Transformer is told of
    and not judged by, for it is no RNN.

    Example:
        >>> judge({"series": {}}).word
        'not reproduced'
    """
    compared = comparison(found)
    if not compared:
        return Verdict("not reproduced", "no linear run ended well")
    rivals = {name: runs for name, runs in compared["others"].items() if name != "Transformer"}
    because = (
        f"KL at {TESTED_LENGTH} tokens, in nats: {compared['best']}, the best linear model at the training "
        f"length, {_span(compared['linear'])}; "
        + ", ".join(f"{name} {_span(runs)}" for name, runs in compared["others"].items())
        + "; the other linear models: "
        + ", ".join(f"{name} {_span(runs)}" for name, runs in compared["also linear"].items())
    )
    mean = float(np.mean(compared["linear"]))
    if not rivals or all(mean < float(np.mean(runs)) for runs in rivals.values()):
        return Verdict("not reproduced", because)
    worse = all(min(compared["linear"]) > max(runs) for runs in rivals.values())
    return Verdict("reproduced" if worse and len(rivals) == 2 else "partly", because)


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


FIGURE = PaperFigure(
    title="Who holds the belief about hidden swaps",
    claim=Claim(
        "where actions may fail unseen, linear RNNs can hold the belief worse than non-linear ones",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
