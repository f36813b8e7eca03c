"""The figure of `analysis.belief`: divergence along sequences, since full reveals, decoded beliefs, norms."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.belief.measurement import BeliefAnalysis, RunBelief
from analysis.belief.norms import shown_positions
from analysis.belief.statistics import Bins, Estimate
from analysis.framework.arrays import FloatArray
from analysis.framework.figures import TEXT_WIDTH, legend_below, log_axis, new_panels, powers_of_two, styled
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import draw_runs, drawn_groups, mark_training_lengths

FLOOR = 1e-9  # what is smaller is drawn here: rounding of float32 logits
TITLES = (
    "divergence along sequences",
    "since a full reveal",
    "reveals since",
    "loss above Bayes",
    "decoded belief",
    "norm of the state",
)
"""Titles of the panels."""
LOGARITHMIC = TITLES[:3]  # panels with a logarithmic vertical axis
UNDERFLOW = -103.3  # log 2⁻¹⁴⁹, of the smallest positive number of float32


def draw(found: BeliefAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw six panels; runs that differ in their seed only are drawn together."""
    groups = drawn_groups(found.runs)
    tasks = sorted({result.run.task for result in found.runs})
    with styled():
        figure, panels = new_panels(
            width, 6, f"belief on {', '.join(tasks)}", height=2.35 + 0.13 * len(groups)
        )
        along, since, reveals, excess, decoded, norms = panels
        for axes, title in zip(panels, TITLES, strict=True):
            axes.set_title(title)
        for group, label, look, breadth in groups:
            _draw_bins(along, [result.predictions.by_position() for result in group], look, label, breadth)
            for axes, name in ((since, "tokens"), (reveals, "reveals")):
                bins = [result.predictions.since_full_reveal().get(name) for result in group]
                _draw_bins(axes, bins, look, label, breadth)
            lengths = group[0].lengths
            losses = [[result.excess(length) for length in lengths] for result in group]
            _draw_estimates(excess, lengths, losses, look, label, breadth)
            beliefs = [[result.decoded[n] for n in lengths] for result in group if result.decoded]
            for part, what, one, broad in (
                ("distance", "from b", look, breadth),
                ("inconsistency", "one step", Look(look.color, "x", ":"), 1.0),
            ):
                distances = [[getattr(entry, part) for entry in of_run] for of_run in beliefs]
                _draw_estimates(decoded, lengths, distances, one, f"{label}: {what}", broad)
            _draw_norms(norms, group, look, label, breadth)
        _draw_mass(norms, found.runs)
        _finish(found, panels)
        return figure


def _draw_bins(axes: Axes, of_runs: Sequence[Bins | None], look: Look, label: str, breadth: float) -> None:
    bins = [entry for entry in of_runs if entry is not None]
    if bins:
        shortest = min(len(entry.found) for entry in bins)
        found = [entry.found[:shortest] for entry in bins]
        _draw_estimates(axes, bins[0].middles[:shortest], found, look, label, breadth)


def _draw_estimates(
    axes: Axes,
    x: Sequence[int] | FloatArray,
    found: Sequence[Sequence[Estimate]],
    look: Look,
    label: str,
    breadth: float,
) -> None:
    """Means of runs, and the intervals of one that is alone; a logarithmic axis does not follow them to 0."""
    floor = FLOOR if axes.get_title() in LOGARITHMIC else -np.inf
    values = np.maximum([[entry.mean for entry in of_run] for of_run in found], floor)
    draw_runs(axes, x, values, look, label, breadth=breadth, middle="median")
    if len(found) == 1:
        low, high = ([getattr(entry, end) for entry in found[0]] for end in ("low", "high"))
        axes.fill_between(x, np.maximum(low, floor), high, color=look.color, alpha=0.18, linewidth=0)


def _draw_norms(axes: Axes, group: Sequence[RunBelief], look: Look, label: str, breadth: float) -> None:
    """The logarithm of the median norm of every layer of every run."""
    lines = []
    for result in group:
        if result.norms is not None:
            positions = shown_positions(result.norms.norms.shape[-1])
            with np.errstate(divide="ignore"):
                logs = np.log(result.norms.quantiles(positions)[:, 1])
            lines += [np.where(np.isfinite(layer), layer, UNDERFLOW) for layer in logs]
    if lines:
        layers = f"{label}, {len(lines) // len(group)} layers" if len(lines) > len(group) else label
        line = Look(look.color, dashes=look.dashes)
        draw_runs(axes, positions + 1, lines, line, layers, breadth=breadth, middle="median")


def _draw_mass(axes: Axes, runs: Sequence[RunBelief]) -> None:
    """The logarithm of the mass of the exact linear filter, as far as float32 holds it."""
    exact = max((result.predictions.exact for result in runs), key=lambda exact: exact.tokens.shape[1])
    mass = np.nanmean(exact.log_evidence.cumsum(axis=1), axis=0)
    held = mass > UNDERFLOW
    look: dict[str, Any] = {"color": GREY, "linewidth": 1.2, "linestyle": "-."}
    axes.plot(np.flatnonzero(held) + 1, mass[held], label="linear filter: log mass", **look)


def _finish(found: BeliefAnalysis, panels: Sequence[Axes]) -> None:
    along, since, reveals, excess, decoded, norms = panels
    lengths = sorted({length for result in found.runs for length in result.lengths})
    for axes in (along, excess, decoded, norms):
        mark_training_lengths(axes, [result.run for result in found.runs])
    divergence = "KL(exact ‖ model) (nats)"
    along.set(xlabel="tokens read", ylabel=divergence)
    since.set(xlabel="tokens since the last full reveal", ylabel=divergence)
    reveals.set(xlabel="reveals since, + 1", ylabel=divergence)
    excess.set(xlabel="length (tokens)", ylabel="excess log loss (nats)")
    decoded.set(xlabel="length (tokens)", ylabel="total variation")
    norms.set(xlabel="tokens read", ylabel="log norm, log mass (nats)")
    for axes in (along, since, reveals):
        drawn = [np.asarray(line.get_ydata(), float) for line in axes.lines if line.get_marker() != "None"]
        if drawn:
            values = np.concatenate(drawn)
            axes.set_ylim(np.nanmin(values) / 2, np.nanmax(values) * 2)
            log_axis(axes)
        log_axis(axes, "x")
    for result in found.runs:
        if result.decoded:
            constant = [result.decoded[length].constant.mean for length in result.lengths]
            decoded.plot(
                result.lengths, constant, color=GREY, linewidth=0.8, linestyle=":", label="mean belief"
            )
            break
    decoded.set_ylim(bottom=0)
    log_axis(norms, "x")
    for axes in (excess, decoded):
        if len(lengths) == 1:  # a scale needs two numbers
            powers_of_two(axes, [max(1, lengths[0] // 2), lengths[0], 2 * lengths[0]])
        elif len(lengths) <= 6 and all(after >= 1.5 * before for before, after in pairwise(lengths)):
            powers_of_two(axes, lengths)
        else:
            log_axis(axes, "x")
    for axes in (since, reveals, decoded):
        if not axes.lines or not axes.get_legend_handles_labels()[0]:
            axes.text(0.5, 0.5, "none", ha="center", transform=axes.transAxes)
    excess.axhline(0, color=GREY, linewidth=0.8)
    for axes in panels:
        if axes.get_legend_handles_labels()[0]:
            legend_below(axes)
