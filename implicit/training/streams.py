"""Data streams: every batch is a pure function of (seed, stream, number), and no two streams share one.

A run that is resumed at step k draws the batches that an uninterrupted run would have drawn, and nothing
about the position in a stream has to be stored.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from automata.checks import check_integer, check_memory, check_type
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.tasks.interface import BYTES_PER_TOKEN, Part, Task


class Stream(IntEnum):
    """The random streams of a run. Early stopping reads VALIDATION only, and reports read TEST only.

    PERTURBATION is the noise of the contraction penalty.
    """

    TRAIN = 0
    VALIDATION = 1
    TEST = 2
    PERTURBATION = 3


_PARTS: dict[Stream, Part] = {
    Stream.TRAIN: "train",
    Stream.VALIDATION: "validation",
    Stream.TEST: "test",
    Stream.PERTURBATION: "train",
}


class TokenBatch(NamedTuple):
    """A batch of a task as tensors.

    Attributes:
        tokens: int64, ``[batch, length]``.
        targets: the right answer after every token, int64 ``[batch, length]``.
        weights: of the targets in the loss, float32 ``[batch, length]``; 0 where nothing is asked.
        lengths: real tokens of each sequence, int64 ``[batch]``; None if all are.
        end: where the exact object stands after the last token, int64 ``[batch]``; None where sequences of
            the task cannot go on.
    """

    tokens: Tensor
    targets: Tensor
    weights: Tensor
    lengths: Tensor | None = None
    end: Tensor | None = None

    @property
    def counted(self) -> Tensor:
        """Where something is asked, bool ``[batch, length]``."""
        return self.weights > 0

    def to(self, device: torch.device) -> "TokenBatch":
        """Return the batch on a device."""
        return TokenBatch(*(part if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


def noise_generator(seed: int, step: int) -> torch.Generator:
    """Return the generator of a training step's noise, seeded from the seed and the step alone."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(Stream.PERTURBATION), step))
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def step_seed(seed: int, step: int) -> int:
    """Return the seed of what a user's model draws in a training step, such as dropout."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(Stream.PERTURBATION), step, 0))
    return int(sequence.generate_state(1)[0])


def check_batch_memory(batch_size: int, length: int, answers: int = 0) -> None:
    """Refuse a batch larger than memory, with so many logits, their logarithms and the gradients of both."""
    check_memory(
        f"a batch of {batch_size} sequences of length {length}" + f" with {answers} answers" * (answers > 0),
        (BYTES_PER_TOKEN + 4 * 4 * answers)
        * check_integer("batch_size", batch_size, 1)
        * check_integer("length", length, 1),
        "give a shorter length or fewer sequences at a time",
    )


def draw_batch(
    task: Task,
    batch_size: int,
    length: int,
    seed: int,
    stream: Stream,
    *number: int,
    start: Tensor | None = None,
) -> TokenBatch:
    """Draw one batch.

    InputError for a negative seed, sizes below 1 or beyond the memory, or what is no stream.

    Args:
        task: the task; of one with a store of data the part that the stream stands for is read.
        batch_size: sequences.
        length: tokens per sequence.
        seed: the seed of the run, or of a report.
        stream: what the batch is for.
        number: which batch of the stream; one or several integers from 0.
        start: where the exact object stands before each sequence, ``[batch_size]``; at the beginning if None.

    Returns:
        The batch. The generator is seeded with
        ``numpy.random.SeedSequence(seed, spawn_key=(stream, *number))``.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> parity = make_task("parity")
        >>> tokens, labels = draw_batch(parity, 4, 100, 0, Stream.TRAIN, 7)[:2]
        >>> bool((labels == tokens.cumsum(1) % 2).all())
        True
        >>> bool((draw_batch(parity, 4, 100, 0, Stream.TRAIN, 7)[0] == tokens).all())
        True
        >>> bool((draw_batch(parity, 4, 100, 0, Stream.TEST, 7)[0] == tokens).all())
        False
    """
    check_integer("seed", seed, 0)
    check_type("stream", stream, Stream, "give one such as Stream.TEST")
    check_batch_memory(batch_size, length)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(stream), *number)))
    part = task.part(_PARTS[stream])
    batch = part.batch(batch_size, length, rng, None if start is None else start.numpy())
    if batch.tokens.shape != (batch_size, length):
        found, wanted = [*batch.tokens.shape], [batch_size, length]
        raise InputError(f"batch of task {task.name} gives tokens of shape {found}; give {wanted}")
    lengths, end = (None if one is None else torch.as_tensor(one) for one in (batch.lengths, batch.end))
    return TokenBatch(
        _numbers(part, "tokens", batch.tokens, batch.real, part.vocabulary_size),
        _numbers(part, "targets", batch.targets, batch.counted, part.output_size),
        torch.as_tensor(batch.weights),
        lengths,
        end,
    )


def _numbers(task: Task, field: str, entries: IntArray, read: NDArray[np.bool_], names: int) -> Tensor:
    """Return numbers of names; what is not read may be anything, such as −100, and becomes one of them."""
    if ((entries < 0) | (entries >= names))[read].any():
        remedy = f"give numbers of {field[:-1]}_names"
        raise InputError(f"batch of task {task.name} gives {field} outside of 0 … {names - 1}; {remedy}")
    return torch.as_tensor(entries.clip(0, names - 1))
