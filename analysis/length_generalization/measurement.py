"""How does accuracy change with length? ``python -m analysis.length_generalization RUN…``.

One evaluation of the longest sequences tells about all shorter ones: every model here is causal, and the
first L tokens of a random sequence are distributed as a sequence of L tokens. Accuracy is the mean over the
last ten tokens; where a task does not ask after every token, over the last ten answers that it asks for.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from tqdm import tqdm

from analysis.framework.output import RunIdentity, require_different_names
from analysis.framework.settings import settings_from
from automata.checks import check_type, printable
from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from implicit.training.streams import Stream, draw_batch


class LengthSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> LengthSettings().lengths
        (32, 64, 128, 256)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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


def wilson_interval(mean: float, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the mean of independent values in [0, 1].

    There is one value per sequence: the share of its last ten tokens that are right. Their errors come
    together, so that the sequences are the independent units. A variable in [0, 1] with mean p has variance
    at most p (1 − p), that of a coin; the interval for a coin is therefore wide enough. It does not shrink
    to a point at 100%.

    Source:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference".

    Args:
        mean: of the values.
        count: how many values.
        confidence: level.

    Example:
        >>> [round(bound, 4) for bound in wilson_interval(1.0, 512)]
        [0.9926, 1.0]
    """
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    center = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * (mean * (1 - mean) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, center - half), min(1.0, center + half)


@dataclass(frozen=True, eq=False)
class RunAccuracy:
    """What one run got right.

    Attributes:
        run: which run.
        correct: ``[sequences, longest length]``.
        share_converged: by length, of all real tokens; None for a model without fixed points.
        baseline: by length, the accuracy of giving the most frequent answer always.
        counted: where something is asked, ``[sequences, longest length]``; None for everywhere.

    Example:
        >>> identity = RunIdentity("parity", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> correct = np.array([[True] * 12, [False] * 2 + [True] * 10])
        >>> found = RunAccuracy(identity, correct, None, {2: 0.5, 12: 0.5})
        >>> found.accuracy(12), found.accuracy(2)
        (1.0, 0.5)

        Asked after the first two tokens only:

        >>> RunAccuracy(identity, correct, None, {12: 0.5}, counted=np.arange(12) < 2).accuracy(12)
        0.5
    """

    run: RunIdentity
    correct: NDArray[np.bool_]
    share_converged: dict[int, float] | None
    baseline: dict[int, float]
    counted: NDArray[np.bool_] | None = None

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Where something is asked, ``[sequences, longest length]``."""
        everywhere = True if self.counted is None else self.counted
        return np.broadcast_to(np.asarray(everywhere, np.bool_), self.correct.shape)

    def accuracy(self, length: int) -> float:
        """Return the accuracy at a length: mean over its last ten answers, or all if there are fewer.

        NaN if nothing is asked up to that length.
        """
        right = self.correct[last_answers(self.asked, length)]
        return float(right.mean()) if right.size else math.nan

    def interval(self, length: int, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the accuracy at a length; NaN as `accuracy`."""
        sequences = int(last_answers(self.asked, length).any(axis=1).sum())
        if not sequences:
            return math.nan, math.nan
        return wilson_interval(self.accuracy(length), sequences, confidence)

    @property
    def by_position(self) -> NDArray[np.float64]:
        """Mean over the sequences that are asked at a position, ``[longest length]``; NaN where none is."""
        asked = self.asked.sum(axis=0)
        right = (self.correct & self.asked).sum(axis=0)
        return np.where(asked > 0, right / np.maximum(asked, 1), np.nan)


def last_answers(asked: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return where the last ten answers of the first ``length`` tokens of each sequence are.

    Args:
        asked: where something is asked, ``[sequences, longest length]``.
        length: in tokens.

    Example:
        >>> asked = np.ones((1, 20), bool)
        >>> np.flatnonzero(last_answers(asked, 16)).tolist()
        [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    """
    here = asked & (np.arange(asked.shape[1]) < length)
    still_to_come = here[:, ::-1].cumsum(axis=1)[:, ::-1]  # answers from here to the end
    return here & (still_to_come <= REPORTED_TOKENS)


@dataclass(frozen=True, eq=False)
class LengthAnalysis:
    """What `analyse` returns.

    Attributes:
        settings: what was chosen.
        runs: one entry per run.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = analyse(run, lengths=(16, 32), sequences=64)
        >>> list(found.numbers()["lstm"]["accuracy"])
        [16, 32]
    """

    settings: LengthSettings
    runs: tuple[RunAccuracy, ...]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        return {found.run.name: self._run_numbers(found) for found in self.runs}

    def _run_numbers(self, found: RunAccuracy) -> dict[str, Any]:
        lengths, confidence = self.settings.lengths, self.settings.confidence
        return {
            "run": asdict(found.run),
            "accuracy": {length: found.accuracy(length) for length in lengths},
            "interval": {length: found.interval(length, confidence) for length in lengths},
            "accuracy_by_position": found.by_position,
            "share_converged": found.share_converged,
            "majority_baseline": found.baseline,
            "chance": found.baseline[max(lengths)],
        }


def analyse(
    runs: Run | Iterable[Run], settings: LengthSettings | None = None, **chosen: Any
) -> LengthAnalysis:
    """Measure the accuracy of runs against length.

    Args:
        runs: a loaded run, or several with different names.
        settings: what to measure.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, or two runs of the same name.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> analyse(run, lengths=(16,), sequences=8).runs[0].correct.shape
        (8, 16)
    """
    settings = settings_from(LengthSettings, chosen, settings)
    check_type("run", runs, (Run, Iterable), "give a loaded one, implicit.load_run(...)")
    several = [runs] if isinstance(runs, Run | str) else list(runs)  # a text is refused below
    if not several:
        raise InputError("runs is empty; give at least one loaded run, implicit.load_run(...)")
    require_different_names(several)
    return LengthAnalysis(settings, tuple(_measure(run, settings) for run in several))


@torch.no_grad()
def _measure(run: Run, settings: LengthSettings) -> RunAccuracy:
    longest = max(settings.lengths)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    correct, counted, targets, converged, real = [], [], [], [], []
    firsts = range(0, settings.sequences, settings.batch_size)
    for index, first in enumerate(
        tqdm(firsts, desc=printable(run.path.name), unit="batch", leave=False, disable=None)
    ):
        size = min(settings.batch_size, settings.sequences - first)
        drawn = draw_batch(run.task, size, longest, settings.seed, Stream.TEST, longest, index)
        batch = drawn.to(run.model.device)
        solve = Solve(settings.mode, stopping=stopping)
        output = run.model.run(batch.tokens, solve=solve, lengths=batch.lengths)
        if output.solution is not None:
            converged.append(output.solution.converged.cpu().numpy())
            real.append(
                np.ones(batch.tokens.shape, np.bool_)
                if (mask := output.solution.mask) is None
                else mask.cpu().numpy()
            )
        correct.append((output.logits.argmax(dim=-1) == batch.targets).cpu().numpy())
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
        {length: _baseline(run.task, length, asked, answers) for length in settings.lengths},
        None if asked.all() else asked,
    )


def _baseline(task: Task, length: int, asked: NDArray[np.bool_], answers: NDArray[np.int64]) -> float:
    """The share of the most frequent answer: the task's own figure where it asks after every token."""
    if asked.all():
        return task.majority_baseline(length, last=REPORTED_TOKENS)
    given = answers[last_answers(asked, length)]
    return float(np.bincount(given).max() / given.size) if given.size else math.nan
