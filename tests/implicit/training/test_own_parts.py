"""An optimiser, a schedule and a loss of the caller's."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from automata.errors import InputError
from implicit import TrainConfig, recipe, train
from implicit.training import TrainingStep
from implicit.training.objective import weighted_cross_entropy


@pytest.fixture
def config() -> TrainConfig:
    return recipe(
        "parity", "lstm", steps=6, batch_size=8, length=5, d_model=4, evaluate_every=2, checkpoint_every=2
    )


def own_parts() -> dict[str, Any]:
    return {
        "optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9),
        "schedule": lambda step: 0.5 / step,
        "loss": lambda logits, targets, weights: cross_entropy(
            logits.flatten(0, 1), targets.flatten(), label_smoothing=0.5
        ),
    }


def test_a_step_of_own_parts_is_that_by_hand(config: TrainConfig, tmp_path: Path) -> None:
    """Gradient descent by 0.5 along the gradient of the squared logits, clipped to a norm of 0.25."""
    before: dict[str, Tensor] = {}
    after: list[TrainingStep] = []

    def keep(taken: TrainingStep) -> bool:
        after.append(taken)
        return True

    def remember(model: nn.Module) -> Any:
        before.update({name: weights.detach().clone() for name, weights in model.named_parameters()})
        return torch.optim.SGD(model.parameters(), lr=7.0)

    train(
        config,
        tmp_path / "run",
        progress=False,
        callback=keep,
        optimizer=remember,
        schedule=lambda step: 0.5 / step,
        loss=lambda logits, _targets, _weights: logits.square().sum(),
    )
    model = after[0].model
    gradients = {name: weights.grad for name, weights in model.named_parameters()}
    norm = torch.stack([gradient.norm() for gradient in gradients.values() if gradient is not None]).norm()
    assert norm.item() == pytest.approx(0.25, rel=1e-4)  # the clipping of the configuration
    assert after[0].learning_rate == 0.5
    for name, weights in model.named_parameters():
        gradient = gradients[name]
        assert gradient is not None
        # one multiplication and one subtraction in float32
        torch.testing.assert_close(weights.detach(), before[name] - 0.5 * gradient, rtol=1e-6, atol=1e-7)


def test_the_loss_is_the_one_given_and_the_run_says_so(config: TrainConfig, tmp_path: Path) -> None:
    usual = train(config, tmp_path / "usual", progress=False)
    doubled = train(
        config,
        tmp_path / "own",
        progress=False,
        loss=lambda *batch: 2 * weighted_cross_entropy(*batch),
    )
    stored = [json.loads((run.path / "environment.json").read_text()) for run in (usual, doubled)]
    assert [environment.get("own") for environment in stored] == [None, "loss"]
    # Adam's steps do not depend on the size of the loss, but for its epsilon
    assert doubled.metrics[0]["loss"] == pytest.approx(2 * usual.metrics[0]["loss"], rel=1e-3)


def test_an_interrupted_run_with_own_parts_goes_on_and_asks_for_the_same(
    config: TrainConfig, tmp_path: Path
) -> None:
    def interrupt(taken: TrainingStep) -> None:
        if taken.step == 4:
            raise KeyboardInterrupt

    whole = train(config, tmp_path / "whole", progress=False, **own_parts())
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", progress=False, callback=interrupt, **own_parts())
    with pytest.raises(InputError, match=r"optimizer schedule loss of training was given .* and none now"):
        train(config, tmp_path / "run", progress=False)
    again = train(config, tmp_path / "run", progress=False, **own_parts())
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(weights, again.model.state_dict()[name])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"optimizer": "SGD"}, "optimizer is 'SGD'; give a function"),
        ({"optimizer": lambda _: None}, "what optimizer returns is None; return a torch.optim.Optimizer"),
        ({"schedule": lambda _: "fast"}, "what schedule returns is 'fast'"),
        ({"loss": lambda logits, *_: logits}, "loss returns .*; return a tensor without axes"),
        ({"loss": 0.1}, "loss is 0.1; give a function"),
        ({"callback": [1]}, r"callback is \[1\]; give a function"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    parts: dict[str, Any], message: str, config: TrainConfig, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train(config, tmp_path / "run", progress=False, **parts)
