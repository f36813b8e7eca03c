"""How does accuracy change with length? ``python -m analysis.length_generalization RUN…``.

One evaluation of the longest sequences tells about all shorter ones: every model here is causal, and the
first L tokens of a random sequence are distributed as a sequence of L tokens. Accuracy is the mean over the
last ten tokens; where a task does not ask after every token, over the last ten answers that it asks for.
Sequence accuracy is the share of the sequences whose every answer is right.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.special
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.framework.analysis import Comparison, ReportSection
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, powers_of_two, styled
from analysis.framework.finding import Answer, Finding, Findings, Rows
from analysis.framework.output import RunIdentity, loaded_runs
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs, drawn_groups, mark_training_lengths
from analysis.framework.settings import AnalysisSettings, settings_from
from analysis.framework.terminal import number, percent
from automata.command_line import progress_bar
from automata.errors import InputError, printable
from automata.tasks.interface import Task
from automata.tasks.sequence_file import SequenceFile
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from implicit.training.streams import Stream, draw_batch

__all__ = [
    "ANALYSIS",
    "LengthAnalysis",
    "LengthSettings",
    "RunAccuracy",
    "analyse",
    "draw",
    "last_answers",
    "main",
    "wilson_interval",
]


class LengthSettings(AnalysisSettings):
    """The settings of the measurement."""

    lengths: tuple[PositiveInt, ...] = Field(
        default=(32, 64, 128, 256), min_length=1, description="lengths of the sequences, in tokens"
    )
    sequences: PositiveInt = Field(default=256, description="sequences")
    batch_size: PositiveInt = Field(default=64, description="sequences at a time; all wait for the slowest")
    mode: Mode = Field(
        default="auto",
        description="of implicit models: how fixed points are sought; auto answers as the sequential mode",
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="level of the confidence intervals")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def wilson_interval(mean: float, count: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the mean of ``count`` independent values in [0, 1].

    There is one value per sequence: the share of its last ten tokens that are right. Their errors come
    together, so that the sequences are the independent units. A variable in [0, 1] with mean p has
    variance at most p (1 − p), that of a coin; the interval for a coin is therefore wide enough. It does
    not shrink to a point at 100%.

    Source:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference".

    Example:
        >>> [round(bound, 4) for bound in wilson_interval(1.0, 512)]
        [0.9926, 1.0]
    """
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    center = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * (mean * (1 - mean) / count + z**2 / (4 * count**2)) ** 0.5
    # an end that is the mean itself must not miss it by rounding
    return min(mean, max(0.0, center - half)), max(mean, min(1.0, center + half))


@dataclass(frozen=True, eq=False)
class RunAccuracy:
    """The right answers of one run, ``[sequences, longest length]``.

    ``share_converged``, of all real tokens, and ``baseline``, the accuracy of always giving the most
    frequent answer, are by length. ``counted`` says where something is asked; None for everywhere.
    ``different`` is the number of stored words that sequences were drawn from, with replacement; None where
    words are drawn afresh.
    """

    run: RunIdentity
    correct: NDArray[np.bool_]
    share_converged: dict[int, float] | None
    baseline: dict[int, float]
    counted: NDArray[np.bool_] | None = None
    different: int | None = None

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Where something is asked, ``[sequences, longest length]``."""
        everywhere = True if self.counted is None else self.counted
        return np.broadcast_to(np.asarray(everywhere, np.bool_), self.correct.shape)

    def accuracy(self, length: int) -> float:
        """Return the accuracy at a length: mean over its last ten answers, or all if there are fewer.

        NaN if nothing is asked up to that length; InputError for one that was not measured.
        """
        self._check(length)
        right = self.correct[last_answers(self.asked, length)]
        return float(right.mean()) if right.size else math.nan

    def interval(self, length: int, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the accuracy at a length; NaN as `accuracy`."""
        return self._interval(self.accuracy(length), length, confidence)

    def sequence_accuracy(self, length: int) -> float:
        """Return the share of the sequences of a length whose every answer is right; NaN as `accuracy`."""
        self._check(length)
        asked = self.asked[:, :length]
        wrong = asked & ~self.correct[:, :length]
        sequences = asked.any(axis=1).sum()
        return 1 - float(wrong.any(axis=1).sum() / sequences) if sequences else math.nan

    def sequence_interval(self, length: int, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the sequence accuracy; NaN as `accuracy`."""
        return self._interval(self.sequence_accuracy(length), length, confidence)

    def _check(self, length: int) -> None:
        longest = self.correct.shape[1]
        if not 1 <= length <= longest:
            raise InputError(f"length is {length}, and 1 to {longest} tokens were measured; give one of them")

    def _interval(self, accuracy: float, length: int, confidence: float) -> tuple[float, float]:
        count = float(self.asked[:, :length].any(axis=1).sum())
        if self.different is not None:
            # of n values drawn from N the mean has the variance σ² (1/n + 1/N − 1/nN)
            count *= self.different / (count + self.different - 1)
        return wilson_interval(accuracy, count, confidence) if count else (math.nan, math.nan)

    @property
    def by_position(self) -> NDArray[np.float64]:
        """Mean over the sequences that are asked at a position, ``[longest length]``; NaN where none is."""
        asked = self.asked.sum(axis=0)
        right = (self.correct & self.asked).sum(axis=0)
        return np.where(asked > 0, right / np.maximum(asked, 1), np.nan)


def last_answers(asked: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return where the last ten answers of the first ``length`` tokens of each sequence are.

    Example:
        >>> asked = np.ones((1, 20), bool)
        >>> np.flatnonzero(last_answers(asked, 16)).tolist()
        [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    """
    here = asked & (np.arange(asked.shape[1]) < length)
    still_to_come = here[:, ::-1].cumsum(axis=1)[:, ::-1]  # answers from here to the end
    return here & (still_to_come <= REPORTED_TOKENS)


@dataclass(frozen=True, eq=False)
class LengthAnalysis(Answer):
    """The result of `analyse`, one entry per run."""

    settings: LengthSettings
    runs: tuple[RunAccuracy, ...]

    @property
    def findings(self) -> Findings:
        """The accuracies of every run."""
        return {found.run.name: self._finding(found) for found in self.runs}

    def _finding(self, found: RunAccuracy) -> Finding:
        settings = self.settings
        lengths, confidence = settings.lengths, settings.confidence
        chance = number(found.baseline[max(lengths)])
        last, whole = map(found.accuracy, lengths), map(found.sequence_accuracy, lengths)
        of_last, of_whole = (
            [interval(n, confidence) for n in lengths]
            for interval in (found.interval, found.sequence_interval)
        )
        reached = ", ".join(f"{number(found.accuracy(length))} at {length}" for length in lengths)
        rows = Rows(
            ["right", *(f"at {length}" for length in lengths)],
            [
                [f"last {REPORTED_TOKENS} answers", *map(_cell, last, of_last)],
                ["every answer", *map(_cell, whole, of_whole)],
                ["most frequent answer", *(number(found.baseline[n]) for n in lengths)],
            ],
            title=f"share of {settings.sequences} sequences, with {confidence:.0%} intervals",
        )
        return Finding(
            f"accuracy {reached} tokens; the most frequent answer reaches {chance} at {max(lengths)}",
            [rows],
            limits=LIMITS,
            warnings=_unconverged(found.share_converged or {}, settings.mode),
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        lengths, confidence = self.settings.lengths, self.settings.confidence
        return {
            found.run.name: {
                "run": asdict(found.run),
                "accuracy": {length: found.accuracy(length) for length in lengths},
                "interval": {length: found.interval(length, confidence) for length in lengths},
                "sequence_accuracy": {length: found.sequence_accuracy(length) for length in lengths},
                "sequence_interval": {n: found.sequence_interval(n, confidence) for n in lengths},
                "accuracy_by_position": found.by_position,
                "share_converged": found.share_converged,
                "majority_baseline": found.baseline,
                "chance": found.baseline[max(lengths)],
            }
            for found in self.runs
        }


LIMITS = (
    "Intervals are Wilson's, with sequences as the independent units. Nothing follows for other seeds, or "
    "for longer sequences than those measured."
)


def _cell(accuracy: float, interval: tuple[float, float]) -> str:
    """An accuracy with its interval; a dash where nothing is asked."""
    low, high = interval
    return "–" if math.isnan(accuracy) else f"{accuracy:.3f} ({low:.3f}–{high:.3f})"


def _unconverged(shares: Mapping[int, float], mode: str) -> list[str]:
    """Say how many tokens have no fixed point at the longest length."""
    longest = max(shares, default=None)
    if longest is None or shares[longest] == 1:
        return []
    simpler = ", or take the mode auto, which needs fewer iterations" if mode == "simultaneous" else ""
    return [
        f"{percent(1 - shares[longest], 2)} of the tokens up to length {longest} have no converged fixed "
        f"point (mode {mode}), and later ones rest on them: their answers do not count as the model's; raise "
        f"max_iterations or loosen rtol{simpler}"
    ]


def analyse(
    runs: Run | Iterable[Run], settings: LengthSettings | None = None, **chosen: Any
) -> LengthAnalysis:
    """Measure the accuracy of runs against length.

    Several runs have different names; settings can be given by name instead. InputError for a bad setting, or
    two runs of the same name.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> analyse(run, lengths=(16,), sequences=8).runs[0].correct.shape
        (8, 16)
    """
    settings = settings_from(LengthSettings, chosen, settings)
    several = loaded_runs(runs)
    return LengthAnalysis(settings, tuple(_measure(run, settings) for run in several))


@torch.no_grad()
def _measure(run: Run, settings: LengthSettings) -> RunAccuracy:
    longest, tested = max(settings.lengths), run.task.part("test")
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    correct, counted, targets, converged, real = [], [], [], [], []
    firsts = range(0, settings.sequences, settings.batch_size)
    for index, first in enumerate(progress_bar(firsts, desc=printable(run.name), unit="batch")):
        size = min(settings.batch_size, settings.sequences - first)
        drawn = draw_batch(run.task, size, longest, settings.seed, Stream.TEST, longest, index)
        batch = drawn.to(run.model.device)
        solve = Solve(settings.mode, stopping=stopping)
        output = run.model.run(batch.tokens, solve=solve, lengths=batch.lengths)
        if output.solution is not None:
            converged.append(output.solution.converged.cpu().numpy())
            mask = output.solution.mask
            real.append(np.ones(batch.tokens.shape, np.bool_) if mask is None else mask.cpu().numpy())
        correct.append((output.answers == batch.targets).cpu().numpy())
        counted.append(drawn.counted.numpy())
        targets.append(drawn.targets.numpy())
    share = None
    if converged:
        found, among = np.concatenate(converged), np.concatenate(real)
        share = {length: float(found[:, :length][among[:, :length]].mean()) for length in settings.lengths}
    asked, answers = np.concatenate(counted), np.concatenate(targets)
    return RunAccuracy(
        RunIdentity.of(run),
        np.concatenate(correct),
        share,
        {length: _baseline(tested, length, asked, answers) for length in settings.lengths},
        None if asked.all() else asked,
        len(tested.words) if isinstance(tested, SequenceFile) else None,
    )


def _baseline(task: Task, length: int, asked: NDArray[np.bool_], answers: NDArray[np.int64]) -> float:
    """The share of the most frequent answer: the task's own figure where it asks after every token."""
    if asked.all():
        return task.majority_baseline(length, last=REPORTED_TOKENS)
    given = answers[last_answers(asked, length)]
    return float(np.bincount(given).max() / given.size) if given.size else math.nan


def draw(found: LengthAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw both accuracies against length, and that of tokens along the longest sequences.

    Runs that differ in their seed only are drawn together; a run by itself has its confidence intervals.
    """
    settings = found.settings
    lengths = sorted(settings.lengths)
    tasks = sorted({result.run.task for result in found.runs})
    groups = drawn_groups(found.runs)
    with styled():
        figure, (by_length, whole, by_position) = new_panels(
            width, 3, f"accuracy on {', '.join(tasks)}", height=2.5 + 0.13 * len(groups)
        )
        for group, label, look, breadth in groups:
            along = [_running(result) for result in group]
            places = np.arange(1, len(along[0]) + 1)
            line = Look(look.color, dashes=look.dashes)
            draw_runs(by_position, places, along, line, label, breadth=breadth)
            for axes, accuracy, interval in (
                (by_length, RunAccuracy.accuracy, RunAccuracy.interval),
                (whole, RunAccuracy.sequence_accuracy, RunAccuracy.sequence_interval),
            ):
                accuracies = np.array([[accuracy(result, length) for length in lengths] for result in group])
                draw_runs(axes, lengths, accuracies, look, label, breadth=breadth)
                if len(group) == 1:
                    bounds = [interval(group[0], length, settings.confidence) for length in lengths]
                    off, caps = np.abs(np.array(bounds).T - accuracies[0]), 2 + breadth
                    bars: dict[str, Any] = {"ecolor": look.color, "capsize": caps, "elinewidth": 1}
                    axes.errorbar(lengths, accuracies[0], yerr=off, fmt="none", **bars)
        for axes in (by_length, whole, by_position):
            baselines = {tuple(result.baseline[length] for length in lengths) for result in found.runs}
            for number, baseline in enumerate(() if axes is whole else sorted(baselines)):
                first = "most frequent answer" if number == 0 else ""
                axes.plot(lengths, baseline, color=GREY, linewidth=0.8, linestyle=":", label=first)
            mark_training_lengths(axes, [result.run for result in found.runs])
            axes.set_ylim(-0.02, 1.05)
            legend_below(axes)
        by_length.set(title=f"last {REPORTED_TOKENS} tokens", ylabel="share of tokens right")
        whole.set(title="whole sequences", ylabel="share of sequences all right")
        by_position.set(
            title=f"mean of {REPORTED_TOKENS} tokens",
            xlabel="position of the token",
            ylabel="share of tokens right",
        )
        for axes in (by_length, whole):
            axes.set_xlabel("length (tokens)")
            powers_of_two(axes, lengths)
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


def _content(_run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "accuracy": result["accuracy"],
        "accuracy_interval": result["interval"],
        "sequence_accuracy": result["sequence_accuracy"],
        "majority_baseline": result["majority_baseline"],
        "accuracy_share_converged": result["share_converged"],
    }


ANALYSIS = Comparison(
    name="length_generalization",
    question="How does accuracy change with length?",
    description="Measure accuracy against sequence length, with confidence intervals, for one run or "
    "several.",
    settings=LengthSettings,
    compare=analyse,
    draw=draw,
    shows=f"Share of right answers among the last {REPORTED_TOKENS} tokens, by length; share of the "
    f"sequences whose every answer is right; the mean over a token and the {REPORTED_TOKENS - 1} before it, "
    f"along the longest sequences. {RUN_LINES} A run without others of its kind has confidence intervals "
    "(Wilson, one value a sequence). Lines that coincide are drawn with "
    "different widths.",
    section=ReportSection(
        settings={"lengths": "lengths", "sequences": "sequences", "seed": "seed"}, content=_content
    ),
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
