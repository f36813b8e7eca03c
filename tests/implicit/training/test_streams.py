"""Data streams: exact labels, reproducible batches, no batch in two streams."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray

from automata.errors import InputError
from automata.tasks.interface import Batch, Task
from automata.tasks.registry import make_task
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.specification import task_from
from implicit.config.run import TrainConfig
from implicit.training.streams import Stream, TokenBatch, draw_batch, noise_generator
from implicit.training.train import train
from tests.refusals import refusals


def test_logits_of_many_answers_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One large number sets 2¹⁶ answers: logits of 8,192 tokens take 2 GiB, and there are four of these."""
    rows = "".join(f"0,{word},{word}\n" for word in (*range(10), 2**16 - 1))
    (tmp_path / "a.csv").write_text(f"seed,input,target\n{rows}")
    memory = psutil.virtual_memory()._replace(available=2**32)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    config = TrainConfig.of(
        task=f"csv:{tmp_path / 'a.csv'}", model="lstm", sizes={"d_model": 4}, length=1, batch_size=8192
    )
    with pytest.raises(InputError, match=r"length 1 with 65536 answers needs at least 8\.0 GiB"):
        train(config, tmp_path / "run")


def test_batch_is_a_function_of_its_number() -> None:
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


@pytest.mark.parametrize("name", ["S3", "repl-3-reveals", "words that end"])
def test_a_batch_keeps_all_its_parts_on_the_way_to_a_device(name: str) -> None:
    task: Task = ReplLanguage(commands=1, reveal_every=1) if name == "words that end" else task_from(name)
    rng = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(int(Stream.TEST), 2)))
    given = task.part("test").batch(3, 60, rng)
    batch = draw_batch(task, 3, 60, 4, Stream.TEST, 2)
    moved = batch.to(torch.device("cpu"))
    for field in TokenBatch._fields:
        expected, *found = (getattr(parts, field) for parts in (given, batch, moved))
        for part in found:
            assert (part is None) is (expected is None), field
            assert part is None or part.tolist() == expected.tolist(), field
    assert (batch.end is None) is not task.continues
    assert batch.weights.dtype == torch.float32
    assert torch.equal(batch.counted, batch.weights > 0)


def test_every_stream_reads_its_own_part_of_a_store() -> None:
    store = mock.Mock(part=mock.Mock(return_value=make_task("parity")))
    for stream in Stream:
        draw_batch(store, 1, 2, 0, stream, 0)
    asked = ["train", "validation", "test", "train"]
    assert store.part.call_args_list == [mock.call(name) for name in asked]


def test_a_sequence_that_goes_on_begins_where_it_is_told() -> None:
    task, start = make_task("S3"), torch.tensor([1, 5, 2])
    batch = draw_batch(task, 3, 4, 0, Stream.TRAIN, 1, start=start)
    again = draw_batch(task, 3, 4, 0, Stream.TRAIN, 1)
    assert torch.equal(batch.tokens, again.tokens)
    expected = task.table[start.numpy(), batch.tokens[:, 0].numpy()]
    assert batch.targets[:, 0].tolist() == expected.tolist() != again.targets[:, 0].tolist()
    assert batch.end is not None
    assert torch.equal(batch.end, batch.targets[:, -1])


def drawn(batch_size: Any, length: Any, seed: int = 0) -> TokenBatch:
    return draw_batch(make_task("parity"), batch_size, length, seed, Stream.TRAIN, 0)


test_sizes_and_seeds_out_of_range_are_refused = refusals(
    (lambda: drawn(1, 1, -1), "^seed is -1; give at least 0$"),
    (lambda: drawn(0, 3), "^batch_size is 0; "),
    (lambda: drawn("many", 3), "^batch_size is 'many'; "),
    (lambda: drawn(2, 0), "^length is 0; "),
    (lambda: drawn(2, "many"), "^length is 'many'; "),
)


def test_noise_differs_between_seeds_and_steps_and_is_that_of_no_batch() -> None:
    draws = {
        tuple(torch.randn(4, generator=noise_generator(seed, step)).tolist())
        for seed in (0, 1)
        for step in (0, 1, 2)
    }
    assert len(draws) == 6
    sequence = np.random.SeedSequence(3, spawn_key=(3, 7))
    expected = torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
    assert torch.equal(torch.randn(4, generator=noise_generator(3, 7)), torch.randn(4, generator=expected))


class Bits(Task):
    """Parity of sequences of every length, with targets that a test changes."""

    name, description = "bits", "parity of bits"
    token_names, target_names = ("0", "1"), ("even", "odd")
    changed: Callable[[NDArray[np.int64], NDArray[np.bool_]], NDArray[np.int64]]
    rows = 4

    def batch(self, batch_size: int, length: int, rng: np.random.Generator, start: object = None) -> Batch:
        tokens, lengths = rng.integers(2, size=(self.rows, length)), rng.integers(1, length, self.rows)
        real = np.arange(length) < lengths[:, None]
        return Batch(tokens, self.changed(tokens.cumsum(1) % 2, real), real.astype(np.float32), lengths)


def test_what_is_not_asked_may_be_anything_and_what_is_asked_may_not() -> None:
    task = Bits()
    drawn = []
    for task.changed in (lambda right, _: right, lambda right, real: np.where(real, right, -100)):
        batch = draw_batch(task, 4, 9, 0, Stream.TEST, 0)
        drawn.append(batch.targets[batch.counted])
        assert batch.targets.min() >= 0
    assert torch.equal(*drawn)
    task.changed = lambda right, _: right + 1
    with pytest.raises(InputError, match="batch of task bits gives targets outside of 0 … 1"):
        draw_batch(task, 4, 9, 0, Stream.TEST, 0)
    task.rows = 3
    with pytest.raises(InputError, match=r"tokens of shape \[3, 9\]; give \[4, 9\]"):
        draw_batch(task, 4, 9, 0, Stream.TEST, 0)
