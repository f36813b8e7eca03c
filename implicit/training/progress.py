"""The progress of training: a bar on a terminal; elsewhere a line every half minute; TensorBoard."""

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from automata.errors import InputError, printable
from automata.tasks.interface import Task
from automata.tasks.word_problem import WordProblem
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.folder import Metrics

SECONDS = 30.0
"""The time between two lines; the first comes after a tenth of it."""
FORETELLING = 10
"""Steps of this process that foretell the time left; kernels are compiled in the first."""


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """A training step that was taken, as a callback of `implicit.train` is given it.

    Attributes:
        step: number of the step, from 1.
        length: tokens per sequence.
        loss: without the penalties, in nats.
        penalties: weighted, by name.
        accuracy: of the batch.
        learning_rate: of the step.
        model: after the step; it must be left as it is, a copy is its own.
        metrics: what ``metrics.jsonl`` got at this step; None between evaluations.
    """

    step: int
    length: int
    loss: float
    penalties: dict[str, float]
    accuracy: float
    learning_rate: float
    model: SequenceModel
    metrics: Metrics | None


class ProgressLines:
    """Lines on standard error, the first on what is trained; none on a terminal or if not shown."""

    def __init__(self, config: TrainConfig, task: str, parameters: int, *, show: bool) -> None:
        self._shown = show and sys.stderr is not None and not sys.stderr.isatty()
        self._config, self._task, self._parameters, self._told = config, task, parameters, False
        self._began = self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Return whether it is time for a line."""
        return self._shown and time.monotonic() - self._last >= (SECONDS if self._told else SECONDS / 10)

    def tell(self, step: int, taken: int, last: int, length: int, loss: float, accuracy: float) -> None:
        """Print a line: the step, of which this process took so many, its length, the time left at most."""
        config, self._last = self._config, time.monotonic()
        if not self._told:
            print(
                f"training {config.model} ({self._parameters:,} parameters) on {printable(self._task)}: "
                f"up to {config.steps:,} steps of {config.batch_size} sequences of {config.length} tokens, "
                f"learning rate {config.optimizer.learning_rate:g}, seed {config.seed}"
                + (f"; going on after step {step - taken:,}" if step > taken else ""),
                file=sys.stderr,
            )
        self._told = True
        left = _duration((self._last - self._began) / taken * (last - step))
        print(
            f"step {step:,} of at most {last:,}: loss {loss:.4f}, accuracy {accuracy:.4f} at length {length}"
            + (f", up to {left} left at this pace" if taken >= FORETELLING else ""),
            file=sys.stderr,
            flush=True,
        )


def tell_avoided(task: Task) -> None:
    """Print, on standard error, which states sequences never enter; nothing where that is none."""
    if isinstance(task, WordProblem) and task.never_entered and sys.stderr is not None:
        print(printable(f"note: {task.never_entered}"), file=sys.stderr)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class TensorBoard(AbstractContextManager["TensorBoard"]):
    """Writes the metrics to event files; does nothing without a folder.

    A resumed run discards the events after the step that it goes on from.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self._writer: Any = None
        if folder is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    "tensorboard is not installed; "
                    "install implicit-ssm[tensorboard] or leave out --tensorboard"
                ) from None
            self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, metrics: Mapping[str, Any]) -> None:
        """Write every number, those of nested entries under ``outer/inner``."""
        if self._writer is None:
            return
        step = metrics["step"]
        for name, value in _numbers(metrics):
            self._writer.add_scalar(name, value, step)


def _numbers(metrics: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found.extend(_numbers(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float) and name != "step":
            found.append((f"{prefix}{name}", value))
    return found
