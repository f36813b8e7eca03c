"""A user's model is that of its seed, wherever it draws its weights and what it drops in training."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from automata.tasks.registry import make_task
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.loading import initial_model
from implicit.train import train
from implicit.training.progress import TrainingStep

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

    def stop(taken: TrainingStep) -> None:
        if taken.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, tmp_path / "three", progress=False, callback=stop)
    torch.rand(3)
    assert weights(train(CONFIG, tmp_path / "three", progress=False).model) == first
