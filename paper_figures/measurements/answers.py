"""Fresh texts that a run reads in a measurement, and which of its answers are right."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from automata.tasks.interface import Task
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, TokenBatch, draw_batch


class AnswerSettings(CheckedConfig):
    """Which texts are drawn, and how the fixed points of implicit models are sought.

    Example:
        >>> AnswerSettings().sequences
        256
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sequences: PositiveInt = Field(default=256, description="texts")
    batch_size: PositiveInt = Field(default=64, description="texts at a time")
    mode: Mode = Field(default="sequential", description="of implicit models: how fixed points are sought")
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the texts")


class Answers(NamedTuple):
    """What a run answers in a batch of texts.

    Attributes:
        batch: the texts, without columns that are padding in all of them, on the CPU.
        right: where the likeliest answer is the target, bool ``[texts, length]``.
        share_converged: of the fixed points; None of an explicit model.
    """

    batch: TokenBatch
    right: Tensor
    share_converged: float | None


@torch.no_grad()
def answers(run: Run, task: Task, length: int, settings: AnswerSettings, *number: int) -> Iterator[Answers]:
    """Let a run read fresh texts, batch by batch.

    Args:
        run: the model.
        task: whose texts are drawn.
        length: of the rows that hold them.
        settings: how many, and how they are read.
        number: tells these texts from others of the same seed.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("parity", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> [found.right.shape for found in answers(run, task, 5, AnswerSettings(sequences=3, batch_size=2))]
        [torch.Size([2, 5]), torch.Size([1, 5])]
    """
    solve = Solve(
        settings.mode, stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    for index, first in enumerate(range(0, settings.sequences, settings.batch_size)):
        size = min(settings.batch_size, settings.sequences - first)
        batch = draw_batch(task, size, length, settings.seed, Stream.TEST, *number, index)
        if batch.lengths is not None:
            longest = int(batch.lengths.max())
            batch = batch._replace(
                tokens=batch.tokens[:, :longest],
                targets=batch.targets[:, :longest],
                weights=batch.weights[:, :longest],
            )
        there = batch.to(run.model.device)
        output = run.model.run(there.tokens, solve=solve, lengths=there.lengths)
        solution = output.solution
        yield Answers(
            batch,
            output.logits.argmax(dim=-1).cpu() == batch.targets,
            None if solution is None else solution.share_converged,
        )


def mean_share(shares: list[float | None]) -> float | None:
    """Return the mean of the shares that are known; None if none is.

    Example:
        >>> mean_share([0.5, 1.0]), mean_share([None])
        (0.75, None)
    """
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None
