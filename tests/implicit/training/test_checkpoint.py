"""A checkpoint restores model and optimiser so that the following steps have the same bits.

The table holds optimisers whose state is laid out in their own way; the model has parameters that are frozen,
tied or never used.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.curriculum import Growth
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.models.registry import build_model
from implicit.models.torch_rnn import TorchRNNConfig
from implicit.runs.files import read_tensors, write_tensors
from implicit.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from implicit.training.optimizers import MuonAndAdamW, describe_optimizer, restore_optimizer
from implicit.training.state_passing import PassedState
from tests.learned_start import LearnedStart

Change = Callable[[dict[str, torch.Tensor], dict[str, str]], object]
TOKENS = torch.tensor([[0, 1, 1, 0]])


def pair(seed: int) -> tuple[SequenceModel, AdamW]:
    torch.manual_seed(seed)
    model = build_model("lstm", {"d_model": 4}, make_task("parity"))
    return model, AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.95), weight_decay=0.1)


def take_steps(model: nn.Module, optimizer: Optimizer, steps: int) -> None:
    for _ in range(steps):

        def loss() -> float:
            optimizer.zero_grad()
            value = model(TOKENS).square().mean()
            value.backward()
            return float(value.item())

        optimizer.step(loss)


def in_two_groups(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {"params": [weight for weight in real(model) if weight.ndim > 1], "weight_decay": 0.5},
        {"params": [weight for weight in real(model) if weight.ndim == 1], "betas": (0.5, 0.6)},
    ]


class Slow(torch.optim.SGD):
    """SGD with what users add: a further entry, float64, an integer, a best value that begins at infinity."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(real(model), lr=0.01)
        self.taken = torch.zeros(3)

    def step(self, closure: Any = None) -> Any:
        for weight in self.param_groups[0]["params"]:
            known = self.state[weight]
            known["mean"] = known.get("mean", 0.0) * 0.9 + weight.detach().double() / 3
            known["seen"] = known.get("seen", torch.tensor(0)) + 1
            known["best"] = torch.tensor(torch.inf)
        self.taken += 1
        return super().step(closure)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "slow": {"taken": self.taken.clone()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({name: state_dict[name] for name in ("state", "param_groups")})
        self.taken = state_dict["slow"]["taken"]


def of_axes(model: nn.Module, axes: int) -> list[nn.Parameter]:
    return [weight for weight in real(model) if weight.ndim == axes]


def real(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that every optimiser of the table takes; a complex one is left as it is."""
    return [weight for weight in model.parameters() if not weight.is_complex()]


OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "AdamW": lambda model: AdamW(real(model), lr=0.1),
    "AdamW with amsgrad": lambda model: AdamW(real(model), lr=0.1, amsgrad=True),
    "AdamW in two groups": lambda model: AdamW(in_two_groups(model), lr=0.1),
    "SGD, which has no state": lambda model: torch.optim.SGD(real(model), lr=0.01),
    "SGD with momentum": lambda model: torch.optim.SGD(real(model), lr=0.01, momentum=0.9),
    "NAdam": lambda model: torch.optim.NAdam(real(model), lr=0.1),
    "Muon with AdamW": lambda model: MuonAndAdamW(of_axes(model, 2), of_axes(model, 1), (0.9, 0.95), 0.1),
    # its moments have other shapes
    "Adafactor": lambda model: torch.optim.Adafactor(real(model)),
    "a user's": Slow,
    # its state holds lists and numbers
    "LBFGS": lambda model: torch.optim.LBFGS(
        [weight for weight in real(model) if weight.requires_grad], lr=0.1, max_iter=2
    ),
}


# Every optimiser after three steps, and two before the first.
@pytest.mark.parametrize(("name", "before"), [*((key, 3) for key in OPTIMIZERS), ("AdamW", 0), ("LBFGS", 0)])
def test_every_optimiser_goes_on_with_the_same_bits(name: str, before: int, tmp_path: Path) -> None:
    """The model that went on without a break is the oracle."""
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(LearnedStart(TorchRNNConfig(vocabulary_size=2, output_size=2, d_model=4)))
    going_on, resumed = models
    optimizers = [OPTIMIZERS[name](model) for model in models]
    take_steps(going_on, optimizers[0], before)
    path, progress = tmp_path / "checkpoint" / "state", Progress(before, 1.25, 2)
    save_checkpoint(path, going_on, optimizers[0], progress)
    assert load_checkpoint(path, resumed, optimizers[1]) == (progress, None)
    for model, optimizer in zip(models, optimizers, strict=True):
        take_steps(model, optimizer, 2)
    assert all(weight.isfinite().all() for weight in going_on.parameters())
    for parameter, weight in going_on.state_dict().items():
        assert torch.equal(resumed.state_dict()[parameter], weight)
    whole, restored = (optimizer.state_dict() for optimizer in optimizers)
    torch.testing.assert_close(restored["state"], whole["state"], rtol=0, atol=0)
    assert restored["param_groups"] == whole["param_groups"]
    torch.testing.assert_close(restored.get("slow"), whole.get("slow"), rtol=0, atol=0)


def test_parameters_in_another_order_are_refused() -> None:
    """Modules that changed places: torch counts the parameters, so that it would mix up their states."""
    first, second = (nn.ModuleDict({k: nn.Linear(4, 2, bias=False) for k in order}) for order in ("ab", "ba"))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (first, second)]
    (first["a"](torch.ones(4)) + 2 * first["b"](torch.ones(4))).sum().backward()
    optimizers[0].step()
    with pytest.raises(InputError, match=r"groups hold the parameters a\.weight, b\.weight, not b\.weight,"):
        restore_optimizer(second, optimizers[1], *describe_optimizer(first, optimizers[0]))


def edited(change: Change, folder: Path) -> Path:
    """A checkpoint of the small model after one step, with a change in its file."""
    model, optimizer = pair(0)
    take_steps(model, optimizer, 1)
    save_checkpoint(folder / "state", model, optimizer, Progress(step=1))
    tensors, metadata = read_tensors(folder / "state")
    change(tensors, metadata)
    write_tensors(folder / "state", tensors, metadata)
    return folder / "state"


def without_class(metadata: dict[str, str]) -> str:
    description = json.loads(metadata["optimizer"])
    del description["class"]
    return json.dumps(description)


def changed_progress(**values: Any) -> Change:
    def change(_: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        metadata["progress"] = json.dumps({**json.loads(metadata["progress"]), **values})

    return change


def changed_options(_: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    description = json.loads(metadata["optimizer"])
    description["param_groups"][0].update(betas=5, eps="x", weight_decay=[1], amsgrad=True, maximize=True)
    metadata["optimizer"] = json.dumps(description)


def changed_moment(moment: torch.Tensor, of: str = "exp_avg") -> Change:
    return lambda tensors, _: tensors.update({f"optimizer.head.bias.{of}": moment})


FAULTS: dict[str, tuple[Change, str]] = {
    "moment with NaN": (
        lambda tensors, _: tensors["optimizer.head.bias.exp_avg"].fill_(torch.nan),
        "tensor 'optimizer.head.bias.exp_avg' holds NaN",
    ),
    "missing moment": (
        lambda tensors, _: tensors.pop("optimizer.head.bias.exp_avg"),
        "tensor 'optimizer.head.bias.exp_avg' is missing",
    ),
    "extra": (lambda tensors, _: tensors.update(extra=torch.ones(1)), "tensor 'extra' is unexpected"),
    "many moments": (
        lambda tensors, _: tensors.update({"optimizer.x": torch.zeros(2**20)}),
        r"tensor 'optimizer\.x' is unexpected; delete the run",
    ),
    "states of many sequences": (
        lambda tensors, _: tensors.update({"carried.state.h": torch.zeros(2**20)}),
        "tensor 'carried.state",
    ),
    "older version": (lambda _, metadata: metadata.pop("format_version"), r"was written by another version"),
    "no progress": (lambda _, metadata: metadata.pop("progress"), "does not tell the step; delete the run"),
    "no JSON": (lambda _, metadata: metadata.update(progress="{"), "holds a progress that is"),
    "other progress": (lambda _, metadata: metadata.update(progress='{"stepz": 1}'), "not tell the step;"),
    "no optimiser": (lambda _, metadata: metadata.pop("optimizer"), "not tell the state of the optimiser"),
    "optimiser without a class": (
        lambda _, metadata: metadata.update(optimizer=without_class(metadata)),
        "does not tell the state of the optimiser",
    ),
    **{
        f"{field} {value}": (changed_progress(**{field: value}), f"does not tell the step: {field} is ")
        for field, value in [
            *(("step", value) for value in ("x", -5, 2.5, 10**30, 4)),  # of a run of four steps
            *(("seconds", "x"), ("tokens", "x"), ("target_met", None)),
        ]
    },
    "length of growth": (changed_progress(growth={"length": "x"}), "does not tell the step: length is"),
    "growth too long": (changed_progress(growth={"length": 10**9}), "does not tell the step: length is"),
    "deep JSON": (lambda _, metadata: metadata.update(optimizer="[" * 10**5), "that is not valid JSON"),
    "moment of another shape": (changed_moment(torch.ones(3)), "exp_avg is of another shape or dtype"),
    "moment of integers": (changed_moment(torch.ones(2, dtype=torch.int8)), "exp_avg is of another shape"),
    "moment of float8": (
        changed_moment(torch.ones(2).to(torch.float8_e4m3fn)),
        "exp_avg is of another shape",
    ),
    "negative step": (changed_moment(torch.tensor(-1.0), "step"), "step is -1; give at least 0"),
}


@pytest.mark.parametrize(("change", "sentence"), FAULTS.values(), ids=FAULTS)
def test_faulty_checkpoint_is_refused(change: Change, sentence: str, tmp_path: Path) -> None:
    path = edited(change, tmp_path)
    config = TrainConfig.of(task="parity", model="lstm", steps=4, warmup_steps=1, length=4)
    with pytest.raises(InputError, match=sentence):
        load_checkpoint(path, *pair(0), batch_size=2, config=config, configured=True)


def test_options_are_those_of_the_configuration(tmp_path: Path) -> None:
    model, optimizer = pair(0)
    before = optimizer.state_dict()["param_groups"]
    load_checkpoint(edited(changed_options, tmp_path), model, optimizer, configured=True)
    assert optimizer.state_dict()["param_groups"] == before
    assert optimizer.state_dict()["state"]


@pytest.mark.parametrize("name", ["AdamW", "Muon with AdamW"])
def test_a_configured_optimiser_takes_its_moments_back(name: str, tmp_path: Path) -> None:
    model = build_model("lstm", {"d_model": 4}, make_task("parity"))
    optimizers = [OPTIMIZERS[name](model) for _ in range(2)]
    take_steps(model, optimizers[0], 2)
    save_checkpoint(tmp_path / "state", model, optimizers[0], Progress(2))
    load_checkpoint(tmp_path / "state", model, optimizers[1], configured=True)
    whole, restored = (optimizer.state_dict() for optimizer in optimizers)
    torch.testing.assert_close(restored["state"], whole["state"], rtol=0, atol=0)
    assert restored["param_groups"] == whole["param_groups"]


def test_growth_is_kept_and_not_known_of_the_version_before(tmp_path: Path) -> None:
    def as_before(_: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        progress = json.loads(metadata["progress"])
        del progress["growth"]
        metadata.update(format_version="2", progress=json.dumps(progress))

    progress, _ = load_checkpoint(edited(as_before, tmp_path), *pair(0))
    assert progress.step > 0
    assert progress.growth == Growth()
    model, optimizer = pair(0)
    progress = Progress(step=7, seconds=1.5, target_met=1, growth=Growth(8, 0.25, final_from=3))
    save_checkpoint(tmp_path / "state", model, optimizer, progress)
    assert load_checkpoint(tmp_path / "state", model, optimizer)[0] == progress


def test_what_was_passed_on_comes_back(tmp_path: Path) -> None:
    model, optimizer = pair(0)
    states, end = {"h": torch.rand(2, 4)}, torch.tensor([0, 1])
    save_checkpoint(tmp_path / "state", model, optimizer, Progress(1), PassedState(states, end, end > 0))
    _, passed = load_checkpoint(tmp_path / "state", model, optimizer)
    assert passed is not None
    torch.testing.assert_close(passed.state, states, rtol=0, atol=0)
    assert (passed.end.tolist(), passed.reached.tolist()) == ([0, 1], [False, True])


def test_checkpoint_of_another_optimiser_is_refused(tmp_path: Path) -> None:
    path = edited(lambda tensors, metadata: None, tmp_path)
    model, _ = pair(0)
    another = type("AdamW", (torch.optim.SGD,), {})  # the name alone tells nothing
    for made in (torch.optim.SGD, another):
        with pytest.raises(InputError, match=r"the optimiser was .*AdamW, not .*; delete the run folder"):
            load_checkpoint(path, model, made(model.parameters()))


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    model, optimizer = pair(0)
    save_checkpoint(tmp_path / "state", model, optimizer, Progress(step=1), run="one")
    assert load_checkpoint(tmp_path / "state", model, optimizer, run="one")[0].step == 1
    with pytest.raises(InputError, match="is the checkpoint of another run; move it away"):
        load_checkpoint(tmp_path / "state", model, optimizer, run="other")
