"""Data streams: exact labels, reproducible batches, no batch in two streams."""

import numpy as np
import torch

from automata.tasks.registry import make_task
from implicit.training.streams import Stream, draw_batch


def test_labels_are_the_states_of_the_tokens() -> None:
    task = make_task("S3")
    tokens, labels = draw_batch(task, 16, 20, 0, Stream.TRAIN, 1)[:2]
    assert tokens.dtype == labels.dtype == torch.int64
    assert np.array_equal(task.states(tokens.numpy()), labels.numpy())


def test_batch_is_a_function_of_its_number() -> None:
    """Batch 5 is the same whether batches 1 to 4 were drawn before it or not."""
    task = make_task("parity")
    alone = draw_batch(task, 8, 32, 3, Stream.TRAIN, 5)[0]
    in_turn = [draw_batch(task, 8, 32, 3, Stream.TRAIN, number)[0] for number in range(1, 6)]
    assert torch.equal(alone, in_turn[-1])


def test_seeds_streams_and_numbers_give_different_batches() -> None:
    """Two batches of 256 fair bits agree with probability 2^-256."""
    task = make_task("parity")
    batches = [
        tuple(draw_batch(task, 8, 32, seed, stream, *number)[0].flatten().tolist())
        for seed in (0, 1)
        for stream in Stream
        for number in ((0,), (1,), (0, 0), (0, 1), (1, 0))
    ]
    assert len(set(batches)) == len(batches)
