"""The figure of `analysis.length_generalization`: accuracy against length and along the sequences."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, powers_of_two, styled
from analysis.framework.palette import GREY, Look
from analysis.framework.run_groups import group_looks, seed_groups
from analysis.framework.run_lines import RUN_LINES, breadths, draw_runs
from analysis.length_generalization.measurement import LengthAnalysis, RunAccuracy
from automata.drawn_labels import in_legend
from implicit.training.evaluation import REPORTED_TOKENS


def draw(found: LengthAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw accuracy against length, and against the position in the longest sequences.

    Runs that differ in their seed only are drawn together; a run by itself has its confidence intervals.

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
    groups = seed_groups(found.runs)
    looks = group_looks([group[0] for group in groups])
    with styled():
        figure, (by_length, by_position) = new_panels(
            width, 2, f"accuracy on {', '.join(tasks)}", height=2.5 + 0.13 * len(groups)
        )
        for group, look, breadth in zip(groups, looks, breadths(len(groups)), strict=True):
            accuracies = np.array([[result.accuracy(length) for length in lengths] for result in group])
            along = [_running(result) for result in group]
            places = np.arange(1, len(along[0]) + 1)
            line = Look(look.color, dashes=look.dashes)
            label = group[0].run.model if len(group) > 1 else in_legend(group[0].run.name)
            draw_runs(by_length, lengths, accuracies, look, label, breadth=breadth)
            draw_runs(by_position, places, along, line, label, breadth=breadth)
            if len(group) == 1:
                bounds = np.array([group[0].interval(length, settings.confidence) for length in lengths]).T
                by_length.errorbar(
                    lengths,
                    accuracies[0],
                    yerr=np.abs(bounds - accuracies[0]),
                    fmt="none",
                    ecolor=look.color,
                    capsize=2 + breadth,
                    elinewidth=1,
                )
        for axes in (by_length, by_position):
            baselines = sorted(
                {tuple(result.baseline[length] for length in lengths) for result in found.runs}
            )
            for number, baseline in enumerate(baselines):
                label = "most frequent answer" if number == 0 else ""
                axes.plot(lengths, baseline, color=GREY, linewidth=0.8, linestyle=":", label=label)
            trained = {result.run.training_length for result in found.runs if not result.run.compiled}
            for number, length in enumerate(sorted(trained)):
                label = "training length" if number == 0 else ""
                axes.axvline(length, color=GREY, linewidth=0.8, linestyle="--", label=label)
            axes.set_ylim(-0.02, 1.05)
            axes.set_ylabel("accuracy (share of tokens)")
        by_length.set(title=f"last {REPORTED_TOKENS} tokens", xlabel="length (tokens)")
        by_position.set(
            title=f"longest sequences, mean of {REPORTED_TOKENS} tokens", xlabel="position of the token"
        )
        powers_of_two(by_length, lengths)
        legend_below(by_length)
        legend_below(by_position)
        return figure


def caption(found: LengthAnalysis) -> str:
    """Tell what is drawn.

    Example:
        >>> from analysis.length_generalization.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> caption(analyse(load_run("parity"), lengths=(16,), sequences=2))[:50]
        'Accuracy against length: share of right answers am'
    """
    settings = found.settings
    return (
        f"Accuracy against length: share of right answers among the last {REPORTED_TOKENS} tokens of "
        f"{settings.sequences} sequences (data seed {settings.seed}), implicit models in {settings.mode} "
        "mode; and "
        f"along the longest sequences, as the mean over a token and the {REPORTED_TOKENS - 1} before it. "
        f"{RUN_LINES} "
        f"A run without others of its kind has {settings.confidence:.0%} confidence intervals (Wilson, one "
        "value a "
        "sequence). Lines are drawn broader the earlier they stand in the legend, so that equal ones show."
    )


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
