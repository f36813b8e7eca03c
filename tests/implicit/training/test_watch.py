"""Who watches training sees every step that is taken, and changes nothing."""

import copy
from pathlib import Path

import pytest
import torch

from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.train import train


@pytest.fixture
def config() -> TrainConfig:
    sizes = {"d_model": 8, "head_size": 8, "d_state": 4}
    return TrainConfig.of(
        task="parity",
        model="implicit-mamba2",
        sizes=sizes,
        batch_size=2,
        length=4,
        steps=5,
        warmup_steps=1,
        bounded_steps=2,
        evaluate_every=5,
        evaluation_sequences=2,
        checkpoint_every=2,
    )


def test_every_step_is_seen_with_its_weights_and_the_run_is_the_same(
    config: TrainConfig, tmp_path: Path
) -> None:
    seen: list[tuple[int, SequenceModel]] = []
    watched = train(
        config,
        tmp_path / "watched",
        progress=False,
        watch=lambda step, model: seen.append((step, copy.deepcopy(model))),
    )
    alone = train(config, tmp_path / "alone", progress=False)
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
    for name, weights in alone.model.state_dict().items():
        assert torch.equal(weights, watched.model.state_dict()[name])
        assert torch.equal(weights, seen[-1][1].state_dict()[name])
    before, last = (model.get_parameter("embedding.weight") for _, model in seen[-2:])
    assert not torch.equal(before, last)
