"""The configuration: what it accepts, what it stores, and the learning rate it gives."""

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

from automata.errors import InputError
from implicit.config.curriculum import Curriculum
from implicit.config.run import TrainConfig


def of_steps(scheduler: LRScheduler, steps: int) -> list[float]:
    """The learning rates that a scheduler of torch gives to its optimiser, step after step."""
    rates = []
    for _ in range(steps):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def test_learning_rate_is_that_of_torch() -> None:
    """Warm-up as LambdaLR gives it, then CosineAnnealingLR from the peak."""
    config = TrainConfig.of(
        task="parity",
        model="lstm",
        steps=50,
        warmup_steps=10,
        learning_rate=0.2,
        final_learning_rate_fraction=0.25,
    )
    weight = torch.nn.Parameter(torch.zeros(1))
    warmup = of_steps(LambdaLR(torch.optim.SGD([weight], 0.2), lambda step: (step + 1) / 10), 10)
    annealing = CosineAnnealingLR(torch.optim.SGD([weight], 0.2), T_max=40, eta_min=0.05)
    cosine = of_steps(annealing, 41)[1:]
    # torch's cosine is a recurrence over 40 steps: rounding of some 1e-16 a step.
    assert [config.learning_rate_at(step) for step in range(1, 51)] == pytest.approx(
        warmup + cosine, rel=1e-12
    )


def test_no_warmup_starts_below_the_peak_and_ends_at_the_fraction() -> None:
    config = TrainConfig.of(task="parity", model="lstm", steps=4, warmup_steps=0, learning_rate=1)
    rates = [config.learning_rate_at(step) for step in range(1, 5)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.1, rel=1e-12)  # rounding of one cosine


def test_warmup_of_all_steps() -> None:
    config = TrainConfig.of(task="parity", model="lstm", steps=4, warmup_steps=4, learning_rate=1)
    assert [config.learning_rate_at(step) for step in range(1, 5)] == [0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("model", ["implicit-mamba2", "mamba2", "lstm"])
def test_json_rebuilds_the_configuration(model: str) -> None:
    config = TrainConfig.of(
        task="S5", model=model, hard_fraction=0.5, evaluation_lengths=(8, 16), start_length=2
    )
    assert TrainConfig.of(**config.as_json()) == config


def test_json_has_the_curriculum_last() -> None:
    fields = list(TrainConfig.of(task="parity", model="lstm").as_json())
    assert fields[:2] == ["task", "model"]
    assert fields[-len(Curriculum.model_fields) :] == list(Curriculum.model_fields)
    assert sorted(fields) == sorted(TrainConfig.model_fields)


def test_every_field_is_described() -> None:
    assert all(field.description for field in TrainConfig.model_fields.values())


def test_unknown_field() -> None:
    with pytest.raises(InputError, match="field 'batchsize' is unknown; did you mean 'batch_size'"):
        TrainConfig.of(task="parity", model="lstm", batchsize=3)
