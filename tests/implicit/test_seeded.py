"""A user's model is that of its seed, wherever it draws its weights and what it drops in training."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from automata.tasks.registry import make_task
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.loading import initial_model
from implicit.seeded import Seeded
from implicit.train import train

CONFIG = TrainConfig.of(
    task="parity",
    model="tests.drawing_model:Drawing",
    steps=4,
    warmup_steps=1,
    batch_size=2,
    checkpoint_every=2,
)


def weights(model: SequenceModel) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}


def test_a_users_model_is_that_of_its_seed() -> None:
    def made(config: TrainConfig = CONFIG) -> dict[str, list[float]]:
        return weights(initial_model(config, make_task("parity")))

    first = made()
    for draw in (torch.rand, np.random.rand):
        draw(3)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    assert made() == first
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]  # type: ignore[index]  # noqa: NPY002
    other = made(CONFIG.updated(seed=1))
    assert all(other[name] != first[name] for name in first)


def test_training_with_dropout_is_that_of_its_seed(tmp_path: Path) -> None:
    first = weights(train(CONFIG, tmp_path / "one", progress=False).model)
    torch.rand(3)
    assert weights(train(CONFIG, tmp_path / "two", progress=False).model) == first

    def stop(step: int, _: SequenceModel) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, tmp_path / "three", progress=False, watch=stop)
    torch.rand(3)
    assert weights(train(CONFIG, tmp_path / "three", progress=False).model) == first


def test_a_thread_draws_as_the_one_that_started_it() -> None:
    """Until the context ends; threads beside it draw from the global generator."""
    torch.manual_seed(3)
    expected = torch.rand(2), torch.nn.functional.dropout(torch.ones(9))
    torch.manual_seed(5)
    beside = torch.rand(2)
    begin, ended, drawn = threading.Event(), threading.Event(), []

    def other() -> None:
        begin.wait()
        drawn.append(torch.rand(2, generator=torch.default_generator))

    def draw_late() -> None:
        ended.wait()
        torch.rand(2)

    torch.manual_seed(5)
    outside = threading.Thread(target=other)
    outside.start()
    with Seeded(3):
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(
                lambda: (torch.rand(2), torch.nn.functional.dropout(torch.ones(9)))
            ).result()
        begin.set()
        outside.join()
        late = threading.Thread(target=draw_late)
        late.start()
    assert all(map(torch.equal, found, expected))
    assert torch.equal(drawn[0], beside)
    following = torch.get_rng_state()
    ended.set()
    late.join()
    assert not torch.equal(torch.get_rng_state(), following)
    assert threading.Thread.start.__module__ == "threading"


def test_the_default_generator_is_that_of_the_context() -> None:
    torch.manual_seed(5)
    expected, state = torch.rand(2), torch.get_rng_state()
    with Seeded(3):
        torch.default_generator.manual_seed(5)
        assert torch.equal(torch.rand(2), expected)
    assert torch.equal(torch.get_rng_state(), state)
