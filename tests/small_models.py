"""Sizes that make any registered model small, and small models of Mamba-2 with fixed points soon found."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS, ImplicitMamba2, ImplicitMamba2Config, size_names
from implicit.runs.loading import Run, initial_model, load_run
from theory.transition import State

SMALL: dict[str, Any] = {
    "d_model": 8,
    "d_state": 4,
    "head_size": 4,
    "d_conv": 3,
    "groups": 2,
    "heads": 2,
    "key_value_heads": 1,
    "key_size": 4,
    "value_size": 3,
    "dictionary_size": 3,
}

CONSTANT_STATE = [name for name, model in MODELS.items() if not model.state_grows]


def small_sizes(name: str) -> dict[str, Any]:
    return {size: value for size, value in SMALL.items() if size in size_names(name)}


def with_flat_self_map(model: SequenceModel, into: float, out: float = 1) -> SequenceModel:
    """Multiply what goes into the cells of an implicit model, and what comes out to make up for it."""
    for name, weight in model.named_parameters():
        if model.implicit is not None and name.endswith(("in_proj.weight", "out_proj.weight")):
            weight.data *= out if name.endswith("out_proj.weight") else into
    return model


def untrained(model: str, task: str = "parity", *, seed: int = 0, length: int = 16, **sizes: Any) -> Run:
    """Return a model with its initial weights, small if no sizes are given, as a run in memory."""
    config = recipe(task, model, seed=seed, length=length, **(sizes or small_sizes(model)))
    built = config.build_task()
    return Run(Path("runs") / f"{model}-{seed}", config, initial_model(config, built).eval(), built, [])


def contracting_mamba2(layers: int = 1, *, residual: bool = True, rtol: float = 1e-11) -> ImplicitModel:
    """Build a float64 model with a unique fixed point: a weak path from the latent through the mixers."""
    torch.manual_seed(0)
    alphabets = {"vocabulary_size": 5, "output_size": 3}
    config = ImplicitMamba2Config(
        **alphabets,
        **small_sizes("implicit-mamba2") | {"groups": 1},
        layers=layers,
        residual=residual,
        rtol=rtol,
    )
    model = ImplicitMamba2(config).double()
    with torch.no_grad():
        for layer in range(layers):
            model.get_parameter(f"mixers.{layer}.in_proj.weight").mul_(0.25)
            model.get_parameter(f"mixers.{layer}.out_proj.weight").mul_(2)
    return model


def quick_mamba2(dtype: torch.dtype = torch.float64, **sizes: Any) -> ImplicitModel:
    """Build a model that converges soon, with no weight of its norms and skips at its initial 1."""
    torch.manual_seed(0)
    small = {"d_model": 8, "d_state": 4, "head_size": 4, "residual": False}
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=5, output_size=3, **{**small, **sizes}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith(".D"):
                weight.add_(0.3 * torch.randn_like(weight))
            if name.endswith("in_proj.weight"):
                weight.mul_(0.1)
    return model.to(dtype)


def random_tokens(batch: int, length: int, seed: int = 2) -> Tensor:
    return torch.randint(5, (batch, length), generator=torch.Generator().manual_seed(seed))


def random_state(model: ImplicitModel, batch: int) -> State:
    generator = torch.Generator().manual_seed(3)
    return {
        name: torch.randn(zero.shape, generator=generator).to(zero)
        for name, zero in model.init_state(batch).items()
    }


def small_config(**changes: Any) -> TrainConfig:
    """Three steps of a small LSTM on parity, or what the changes say."""
    sizes: dict[str, Any] = {"batch_size": 2, "length": 4, "steps": 3, "warmup_steps": 1}
    return TrainConfig.of(**{"task": "parity", "model": "lstm", "sizes": {"d_model": 4}, **sizes, **changes})


def rounding_model(kind: str) -> ImplicitMamba2:
    """A stored model, or one with several groups and a longer window, with a residual or without."""
    if kind == "stored":
        model = load_run("parity-small").model
        assert isinstance(model, ImplicitMamba2)
        return model
    torch.manual_seed(0)
    sizes = {"d_model": 6, "head_size": 3, "groups": 2, "d_state": 3, "d_conv": 4}
    residual = kind != "plain"
    config = ImplicitMamba2Config(vocabulary_size=2, output_size=3, residual=residual, **sizes)
    return ImplicitMamba2(config)
