"""Data streams: every batch is a pure function of (seed, stream, number), and no two streams share one.

A run that is resumed at step k draws the batches that an uninterrupted run would have drawn, and nothing
about the position in a stream has to be stored.
"""

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from automata.tasks.word_problem import WordProblem


class Stream(IntEnum):
    """What is drawn. Early stopping looks at VALIDATION, reports at TEST, and neither at the other's.

    PERTURBATION is the noise of the contraction penalty.

    Example:
        >>> [stream.name for stream in Stream]
        ['TRAIN', 'VALIDATION', 'TEST', 'PERTURBATION']
    """

    TRAIN = 0
    VALIDATION = 1
    TEST = 2
    PERTURBATION = 3


def noise_generator(seed: int, step: int) -> torch.Generator:
    """Return the generator of a training step's noise, seeded from the seed and the step alone.

    Example:
        >>> first, again = (torch.randn(3, generator=noise_generator(0, step=7)) for _ in range(2))
        >>> bool((first == again).all())
        True
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(Stream.PERTURBATION), step))
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def draw_batch(
    task: WordProblem,
    batch_size: int,
    length: int,
    seed: int,
    stream: Stream,
    *number: int,
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw one batch.

    Args:
        task: the word problem.
        batch_size: sequences.
        length: tokens a sequence.
        seed: the seed of the run, or of a report.
        stream: what the batch is for.
        number: which batch of the stream; one or several integers from 0.
        start: the automaton's state before each sequence, ``[batch_size]``; the initial one if None.

    Returns:
        Tokens and the label after every token, int64 ``[batch, length]`` each. The generator is seeded with
        ``numpy.random.SeedSequence(seed, spawn_key=(stream, *number))``.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> parity = make_task("parity")
        >>> tokens, labels = draw_batch(parity, 4, 100, 0, Stream.TRAIN, 7)
        >>> bool((labels == tokens.cumsum(1) % 2).all())
        True
        >>> bool((draw_batch(parity, 4, 100, 0, Stream.TRAIN, 7)[0] == tokens).all())
        True
        >>> bool((draw_batch(parity, 4, 100, 0, Stream.TEST, 7)[0] == tokens).all())
        False
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(stream), *number)))
    tokens, labels = task.sample(batch_size, length, rng, None if start is None else start.numpy())
    return torch.as_tensor(np.asarray(tokens, np.int64)), torch.as_tensor(np.asarray(labels, np.int64))
