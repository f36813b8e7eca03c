"""Callbacks of training, and the lines that it prints without a terminal."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from automata.errors import InputError
from implicit import TrainConfig, load_run, train
from implicit.runs.folder import RunFolder
from implicit.training import TrainingStep, progress
from implicit.training.train import run_ending
from tests.interrupting import train_until
from tests.small_models import small_config


@pytest.fixture
def config() -> TrainConfig:
    """Seven steps of an implicit model whose contraction is penalised from the first on."""
    sizes = {"d_model": 4, "d_state": 2, "head_size": 4}
    penalised = {"bounded_steps": 0, "contraction_weight": 0.1}
    return small_config(model="implicit-mamba2", sizes=sizes, steps=7, evaluate_every=3, **penalised)


def test_a_callback_gets_every_step_and_metrics_where_measured(config: TrainConfig, tmp_path: Path) -> None:
    taken: list[TrainingStep] = []
    run = train(config, tmp_path / "run", progress=False, callback=taken.append)
    assert [one.step for one in taken] == [1, 2, 3, 4, 5, 6, 7]
    assert [one.step for one in taken if one.metrics is not None] == [3, 6, 7]
    for one, entry in zip([one for one in taken if one.metrics], run.metrics, strict=True):
        assert one.metrics == entry
        assert (one.loss, one.accuracy) == (entry["loss"], entry["accuracy"])
        assert one.penalties == {"contraction": entry["contraction_penalty"]}
        assert one.learning_rate == entry["learning_rate"]
    assert "ended_by" not in run.metrics[-1]


@pytest.mark.parametrize(("last", "measured"), [(2, [2]), (3, [3]), (4, [3, 4])])
def test_true_ends_the_training_and_anything_else_does_not(
    last: int, measured: list[int], config: TrainConfig, tmp_path: Path
) -> None:
    callback = lambda taken: np.bool_(taken.step == last) or 1  # noqa: E731
    run = train(config, tmp_path / "run", progress=False, callback=callback)
    assert [entry["step"] for entry in run.metrics] == measured
    assert run.metrics[-1]["ended_by"] == "callback"
    assert run_ending(run) == "ended before its limit of 7 steps: a callback or --end asked for it"
    assert load_run(tmp_path / "run").metrics == run.metrics
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_lines_without_a_terminal_say_what_is_trained_and_how_long_it_takes(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 1e6)
    train(config, tmp_path / "short", progress=True)
    assert capsys.readouterr().err == ""  # a tenth of that has not passed
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    train(config.updated(steps=11, task={"regex": "(ab|ba)*"}), tmp_path / "run", progress=True)
    avoided, first, *lines = capsys.readouterr().err.splitlines()
    assert avoided.startswith("note: sequences never enter 1 of 4 states (")
    assert first.startswith("training implicit-mamba2 (")
    assert " parameters) on (ab|ba)*: up to 11 steps of 2 sequences of 4 tokens" in first
    for step, line in zip(range(1, 12), lines, strict=True):
        left = r", up to \d+ s left at this pace" if step >= 10 else ""  # the first steps foretell nothing
        assert re.fullmatch(rf"step {step} of at most 11: loss \S+, accuracy \d\.\d+ at length 4{left}", line)
    train(config, tmp_path / "hidden", progress=False)
    assert capsys.readouterr().err == ""


@pytest.fixture
def plain_config() -> TrainConfig:
    return small_config(steps=6, gradient_clip=0.25, evaluate_every=2, checkpoint_every=2)


def own_parts() -> dict[str, Any]:
    return {
        "optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9),
        "schedule": lambda step: 0.5 / step,
        "loss": lambda logits, targets, weights: cross_entropy(
            logits.flatten(0, 1), targets.flatten(), label_smoothing=0.5
        ),
    }


def test_a_step_of_own_parts_is_that_by_hand(plain_config: TrainConfig, tmp_path: Path) -> None:
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
        plain_config,
        tmp_path / "run",
        progress=False,
        callback=keep,
        optimizer=remember,
        schedule=lambda step: 0.5 / step,
        loss=lambda logits, _targets, _weights: logits.square().sum(),
    )
    gradients: dict[str, Any] = {name: weights.grad for name, weights in after[0].model.named_parameters()}
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    assert norm.item() == pytest.approx(0.25, rel=1e-4)  # the clipping of the configuration
    assert after[0].learning_rate == 0.5
    for name, weights in after[0].model.named_parameters():
        # one multiplication and one subtraction in float32
        expected = before[name] - 0.5 * gradients[name]
        torch.testing.assert_close(weights.detach(), expected, rtol=1e-6, atol=1e-7)


def test_a_loss_without_a_gradient_is_refused(plain_config: TrainConfig, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^loss returns .*; return a real tensor without axes"):
        train(plain_config, tmp_path / "run", progress=False, loss=lambda *_: torch.zeros(()))


def test_an_interrupted_run_with_own_parts_goes_on_and_asks_for_the_same(
    plain_config: TrainConfig, tmp_path: Path
) -> None:
    whole = train(plain_config, tmp_path / "whole", progress=False, **own_parts())
    train_until(4, plain_config, tmp_path / "run", **own_parts())
    with pytest.raises(InputError, match=r"optimizer schedule loss of training was given .* and none now"):
        train(plain_config, tmp_path / "run", progress=False)
    again = train(plain_config, tmp_path / "run", progress=False, **own_parts())
    assert all(map(torch.equal, whole.model.parameters(), again.model.parameters()))
    with pytest.raises(InputError, match=r"loss of training was given .* another folder"):
        train(plain_config, tmp_path / "run", progress=False)  # finished, with those parts


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"optimizer": "SGD"}, "optimizer is 'SGD'; give a function"),
        (
            {"optimizer": lambda _: torch.optim.SGD([nn.Parameter(torch.ones(2))])},
            "a parameter that is not the model's",
        ),
        ({"optimizer": lambda model: torch.optim.LBFGS(model.parameters())}, "LBFGS"),
        ({"optimizer": lambda _: None}, "what optimizer returns is None; return a torch.optim.Optimizer"),
        ({"schedule": lambda _: "fast"}, "what schedule returns is 'fast'"),
        ({"schedule": lambda _: float("nan")}, "what schedule returns is nan; give a finite number"),
        ({"loss": lambda logits, *_: logits}, "loss returns .*; return a real tensor without axes"),
        ({"loss": lambda logits, *_: logits.detach().sum()}, "loss returns .*; return a real tensor"),
        ({"loss": 0.1}, "loss is 0.1; give a function"),
        ({"callback": [1]}, r"callback is \[1\]; give a function"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    parts: dict[str, Any], message: str, plain_config: TrainConfig, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train(plain_config, tmp_path / "run", progress=False, **parts)


class Unstorable(torch.optim.SGD):
    """Its state has a key that JSON cannot have."""

    def step(self, closure: Any = None) -> Any:
        for weight in self.param_groups[0]["params"]:
            self.state[weight]["history"] = {1: 2}
        return super().step(closure)


class Diverging(torch.optim.SGD):
    """Its third step ends in NaN, whatever the gradient is."""

    taken = 0

    def step(self, closure: Any = None) -> Any:
        self.taken += 1
        with torch.no_grad():
            self.param_groups[0]["params"][0].mul_(torch.nan if self.taken == 3 else 1.0)
        return super().step(closure)


def test_what_no_checkpoint_can_hold_is_refused_before_there_is_work_to_lose(
    plain_config: TrainConfig, tmp_path: Path
) -> None:
    steps: list[TrainingStep] = []
    parts: dict[str, Any] = {"callback": steps.append}
    parts |= {"optimizer": lambda model: Unstorable(model.parameters())}
    with pytest.raises(InputError, match="which a checkpoint does not hold"):
        train(plain_config, tmp_path / "run", progress=False, **parts)
    assert steps == []


@pytest.mark.filterwarnings("ignore:logits of")
def test_weights_that_are_not_finite_replace_no_checkpoint_and_finish_no_run(
    plain_config: TrainConfig, tmp_path: Path
) -> None:
    made, diverging = RunFolder(tmp_path / "run"), lambda model: Diverging(model.parameters())
    with pytest.raises(InputError, match=r"embedding\.weight is not finite after step 3"):
        train(plain_config.updated(steps=3), made.path, progress=False, optimizer=diverging)
    assert made.stored_step == 2
    assert not made.finished


def test_gradients_are_those_of_the_step_also_where_the_optimizer_leaves_parameters_out(
    plain_config: TrainConfig, tmp_path: Path
) -> None:
    found: list[list[Tensor]] = []

    def keep(taken: TrainingStep) -> None:
        found.append([weights.grad.clone() for weights in taken.model.parameters()])  # type: ignore[union-attr]

    for start in ("", "head"):
        parts: dict[str, Any] = {
            "optimizer": lambda model, start=start: torch.optim.SGD(
                [weights for name, weights in model.named_parameters() if name.startswith(start)]
            ),
            "schedule": lambda _: 0.0,  # so that the models stay the same
        }
        config = plain_config.updated(steps=3)
        train(config, tmp_path / f"{start}.", progress=False, callback=keep, **parts)
    assert all(map(torch.equal, found[2], found[-1]))


def test_training_without_gradients_is_refused(plain_config: TrainConfig, tmp_path: Path) -> None:
    with torch.no_grad(), pytest.raises(InputError, match="gradients are off"):
        train(plain_config, tmp_path / "run", progress=False)
