"""The figure of `analysis.length_generalization`: accuracy against length and along the sequences."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.framework.figures import COLORS, GREY, MODEL_COLORS, new_figure, powers_of_two, styled
from analysis.length_generalization.measurement import LengthAnalysis, RunAccuracy
from implicit.training.evaluation import REPORTED_TOKENS


def draw(found: LengthAnalysis) -> Figure:
    """Draw accuracy against length, and against the position in the longest sequences.

    Example:
        >>> from analysis.length_generalization.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), lengths=(16,), sequences=2)
        >>> [axes.get_xlabel() for axes in draw(found).axes]
        ['length (tokens)', 'position of the token']
    """
    settings = found.settings
    lengths = sorted(settings.lengths)
    tasks = sorted({result.run.task for result in found.runs})
    seeds = sorted({result.run.seed for result in found.runs})
    with styled():
        figure = new_figure(
            9,
            3.8,
            f"{', '.join(tasks)}: {len(found.runs)} run{'s' * (len(found.runs) > 1)} of training seed "
            f"{', '.join(map(str, seeds))}, {settings.sequences} sequences each",
        )
        by_length, by_position = figure.subplots(1, 2, sharey=True)
        spare = [color for color in COLORS if color not in MODEL_COLORS.values()]
        several_of_a_model = len({result.run.model for result in found.runs}) < len(found.runs)
        for number, (result, marker) in enumerate(
            zip(found.runs, _cycled("osD^v<>", len(found.runs)), strict=True)
        ):
            color = (
                COLORS[number % len(COLORS)]
                if several_of_a_model
                else MODEL_COLORS.get(result.run.model, spare[0])
            )
            # The first is drawn broadest, so that runs of equal accuracy show behind one another.
            breadth = 1 - number / max(1, len(found.runs) - 1)
            accuracies = np.array([result.accuracy(length) for length in lengths])
            bounds = np.array([result.interval(length, settings.confidence) for length in lengths]).T
            by_length.errorbar(
                lengths,
                accuracies,
                yerr=np.abs(bounds - accuracies),
                marker=marker,
                color=color,
                capsize=3 + 3 * breadth,
                linewidth=1.2 + 3 * breadth,
                elinewidth=1.2,
                markersize=5 + 5 * breadth,
                label=result.run.name,
            )
            by_position.plot(
                _running(result),
                color=color,
                linewidth=1.2 + 3 * breadth,
                label=result.run.name,
            )
        for axes in (by_length, by_position):
            for baseline in {tuple(result.baseline[length] for length in lengths) for result in found.runs}:
                axes.plot(
                    lengths, baseline, color=GREY, linewidth=0.8, linestyle=":", label="most frequent answer"
                )
            for length in {result.run.training_length for result in found.runs}:
                axes.axvline(length, color=GREY, linewidth=0.8, linestyle="--", label="training length")
            axes.set_ylim(-0.02, 1.03)
        by_length.set(
            title=f"last {REPORTED_TOKENS} tokens, with {settings.confidence:.0%} intervals (Wilson)",
            xlabel="length (tokens)",
            ylabel="accuracy (share of tokens)",
        )
        by_position.set(
            title=f"along the longest sequences, mean of {REPORTED_TOKENS} tokens",
            xlabel="position of the token",
        )
        powers_of_two(by_length, lengths)
        by_length.legend(loc="lower left")
        return figure


def _running(result: RunAccuracy) -> NDArray[np.float64]:
    """Mean over a token and the nine before it: what the accuracy of a sequence that ends there would be."""
    ends = np.arange(1, result.correct.shape[1] + 1)
    starts = np.maximum(0, ends - REPORTED_TOKENS)
    right, asked = (
        np.concatenate([[0], part.sum(axis=0).cumsum()])
        for part in (result.correct & result.asked, result.asked)
    )
    counts = asked[ends] - asked[starts]
    return np.where(counts > 0, (right[ends] - right[starts]) / np.maximum(counts, 1), np.nan)


def _cycled(markers: str, count: int) -> str:
    return (markers * (count // len(markers) + 1))[:count]
