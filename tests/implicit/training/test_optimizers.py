"""Muon with AdamW beside it: the steps of torch's own two, stored and restored; which parameter has which."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.run import TrainConfig
from implicit.runs.loading import initial_model
from implicit.train import train
from implicit.training.evaluation import evaluate
from implicit.training.optimizers import MuonAndAdamW, make_optimizer
from implicit.training.progress import TrainingStep
from implicit.training.streams import Stream
from tests.small_models import small_config

BETAS, DECAY = (0.9, 0.95), 0.1


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def of_axes(model: nn.Module, axes: int) -> list[nn.Parameter]:
    return [part for part in model.parameters() if part.ndim == axes]


def both(model: nn.Module) -> MuonAndAdamW:
    return MuonAndAdamW(of_axes(model, 2), of_axes(model, 1), BETAS, DECAY)


def give_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def test_its_steps_are_those_of_torch_apart() -> None:
    ours, theirs = network(), network()
    optimizer = both(ours)
    apart = [
        Muon(of_axes(theirs, 2), weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
        AdamW(of_axes(theirs, 1), betas=BETAS, weight_decay=DECAY),
    ]
    for step, rate in enumerate((0.01, 0.03, 0.002)):
        for group in [group for each in (optimizer, *apart) for group in each.param_groups]:
            group["lr"] = rate
        for model in (ours, theirs):
            give_gradients(model, step)
        for each in (optimizer, *apart):
            each.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


def test_a_closure_is_called_once_before_the_steps() -> None:
    model = network()
    calls: list[bool] = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        give_gradients(model, 0)
        return 3.0

    with torch.no_grad():
        assert both(model).step(closure) == 3.0
    assert calls == [True]


def of(model: str) -> TrainConfig:
    return small_config(model=model, algorithm="Muon", sizes={"d_model": 8})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("implicit-mamba2", {"in_proj", "out_proj", "injections"}),
        ("deltanet", {"in_proj", "out_proj"}),
        ("lstm", {"weight_ih_l0", "weight_hh_l0"}),
    ],
)
def test_muon_has_the_matrices_between_embedding_and_head(name: str, expected: set[str]) -> None:
    config = of(name)
    model = initial_model(config, make_task("parity"))
    names = {id(part): where for where, part in model.named_parameters()}
    muon, adamw = make_optimizer(config, model).param_groups
    found = [names[id(part)] for part in muon["params"]]
    assert all(any(part in where for part in expected) for where in found), found
    assert len(found) == len(expected)
    assert {"embedding.weight", "head.weight"} <= {names[id(part)] for part in adamw["params"]}
    assert len(muon["params"]) + len(adamw["params"]) == len(names)


def test_a_model_without_matrices_is_refused() -> None:
    with pytest.raises(InputError, match=r"^algorithm is Muon, and lstm has no matrices for it; give AdamW$"):
        make_optimizer(of("lstm"), nn.Embedding(2, 3))


def _plain_descent(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1)  # keeps no state of any parameter


@pytest.mark.parametrize(
    ("algorithm", "optimizer"), [("AdamW", None), ("Muon", None), ("AdamW", _plain_descent)]
)
def test_the_weights_of_the_last_steps_are_averaged_and_measured(
    algorithm: str, optimizer: Any, tmp_path: Path
) -> None:
    weights: list[dict[str, Tensor]] = []

    def keep(step: TrainingStep) -> None:
        weights.append({name: part.detach().clone() for name, part in step.model.named_parameters()})

    given: dict[str, Any] = {"steps": 6, "algorithm": algorithm, "evaluate_every": 3}
    config = small_config(**given)
    train(config, tmp_path / "last", progress=False, callback=keep, optimizer=optimizer)
    config = config.updated(average_steps=3)
    run = train(config, tmp_path / "mean", progress=False, optimizer=optimizer)
    for name, part in run.model.named_parameters():
        torch.testing.assert_close(part, sum(each[name] for each in weights[3:]) / 3)
    (measured,) = run.metrics[-1]["validation"].values()
    batches: dict[str, Any] = {"sequences": config.evaluation.sequences, "batch_size": config.batch_size}
    found = evaluate(
        run.model, run.task, config.length, **batches, seed=0, stream=Stream.VALIDATION, number=(6,)
    )
    assert measured["accuracy"] == found.accuracy
