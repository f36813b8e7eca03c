"""How does accuracy change with length? ``python -m analysis.length_generalization RUN…``.

One evaluation of the longest sequences tells about all shorter ones: every model here is causal, and the
first L tokens of a random sequence are distributed as a sequence of L tokens. Accuracy is the mean over the
last ten tokens.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.stats
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from tqdm import tqdm

from analysis.framework.output import RunIdentity, require_different_names
from analysis.framework.settings import settings_from
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from implicit.training.streams import Stream, draw_batch


class LengthSettings(BaseModel):
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
        default="sequential",
        description="of implicit models: sequential (several times faster at length 256) or simultaneous",
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
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    center = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * (mean * (1 - mean) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, center - half), min(1.0, center + half)


@dataclass(frozen=True, eq=False)
class RunAccuracy:
    """What one run got right.

    Attributes:
        run: which run.
        correct: ``[sequences, longest length]``.
        share_converged: by length, of all tokens; None for a model without fixed points.
        chance: accuracy of guessing one class.

    Example:
        >>> identity = RunIdentity("parity", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> correct = np.array([[True] * 12, [False] * 2 + [True] * 10])
        >>> found = RunAccuracy(identity, correct, None, 0.5)
        >>> found.accuracy(12), found.accuracy(2)
        (1.0, 0.5)
    """

    run: RunIdentity
    correct: NDArray[np.bool_]
    share_converged: dict[int, float] | None
    chance: float

    def accuracy(self, length: int) -> float:
        """Return the accuracy at a length: mean over its last ten tokens, or all if there are fewer."""
        return float(self.correct[:, max(0, length - REPORTED_TOKENS) : length].mean())

    def interval(self, length: int, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the accuracy at a length."""
        return wilson_interval(self.accuracy(length), len(self.correct), confidence)


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
            "accuracy_by_position": found.correct.mean(axis=0),
            "share_converged": found.share_converged,
            "chance": found.chance,
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
    settings = settings or settings_from(LengthSettings, chosen)
    several = [runs] if isinstance(runs, Run) else list(runs)
    require_different_names(several)
    return LengthAnalysis(settings, tuple(_measure(run, settings) for run in several))


@torch.no_grad()
def _measure(run: Run, settings: LengthSettings) -> RunAccuracy:
    longest = max(settings.lengths)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    correct, converged = [], []
    firsts = range(0, settings.sequences, settings.batch_size)
    for index, first in enumerate(tqdm(firsts, desc=run.path.name, unit="batch", leave=False, disable=None)):
        size = min(settings.batch_size, settings.sequences - first)
        batch = draw_batch(run.task, size, longest, settings.seed, Stream.TEST, longest, index)
        output = run.model.run(batch.tokens, solve=Solve(settings.mode, stopping=stopping))
        if output.solution is not None:
            converged.append(output.solution.converged.numpy())
        correct.append((output.logits.argmax(dim=-1) == batch.targets).numpy())
    share = None
    if converged:
        tokens_converged = np.concatenate(converged)
        share = {length: float(tokens_converged[:, :length].mean()) for length in settings.lengths}
    return RunAccuracy(RunIdentity.of(run), np.concatenate(correct), share, 1 / run.task.output_size)
