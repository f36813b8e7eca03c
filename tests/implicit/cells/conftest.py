"""The table of cells that the contract is tested on, with weights drawn for tests."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from implicit.cells import (
    AttentionCell,
    DeltaNetCell,
    GatedDeltaNetCell,
    GatedDeltaProductCell,
    Mamba2Cell,
    Mamba3Cell,
    PDSSMCell,
)
from implicit.cells.interface import Cell

AnyModule = TypeVar("AnyModule", bound=nn.Module)
SMALL: dict[str, Any] = {"heads": 2, "key_size": 4, "value_size": 3}
CELLS: dict[str, tuple[type[Cell], dict[str, Any]]] = {
    "deltanet": (DeltaNetCell, {**SMALL, "d_conv": 4}),
    "deltanet-no-convolution": (DeltaNetCell, {**SMALL, "d_conv": 1}),
    "deltanet-negative": (DeltaNetCell, {**SMALL, "negative_eigenvalues": True}),
    "gated-deltanet": (GatedDeltaNetCell, {**SMALL, "value_size": 5, "d_conv": 2}),
    "gated-deltaproduct": (GatedDeltaProductCell, {**SMALL, "d_conv": 1, "negative_eigenvalues": True}),
    "gated-deltaproduct-3": (GatedDeltaProductCell, {**SMALL, "d_conv": 3, "householder_steps": 3}),
    "attention": (AttentionCell, {"heads": 4, "key_value_heads": 2, "head_size": 4}),
    "attention-no-positions": (
        AttentionCell,
        {"heads": 2, "key_value_heads": 1, "head_size": 6, "rope_base": None},
    ),
    "mamba2": (Mamba2Cell, {"d_state": 4, "head_size": 3, "d_conv": 3}),
    "mamba2-no-convolution": (Mamba2Cell, {"d_state": 4, "head_size": 3, "groups": 2, "d_conv": 1}),
    "mamba2-a-group-a-head": (
        Mamba2Cell,
        {"d_state": 1, "head_size": 2, "groups": 3, "d_conv": 2, "expand": 1},
    ),
    "mamba3": (Mamba3Cell, {"d_state": 8, "head_size": 3}),
    "pd-ssm": (PDSSMCell, {"heads": 2, "d_state": 3, "dictionary_size": 4, "temperature": 0.5}),
}
"""A new cell is one row here: its class and the sizes that it is tested with, beside d_model = 6."""
D_MODEL = 6


def build(name: str, dtype: torch.dtype = torch.float64, **more: Any) -> Any:
    """Build the cell with random parameters only: initial ones and zeros would hide an error."""
    kind, sizes = CELLS[name]
    return with_random_weights(kind(D_MODEL, **sizes, **more).to(dtype))


@pytest.fixture(params=CELLS)
def make_cell(request: pytest.FixtureRequest) -> Callable[..., Cell]:
    return partial(build, request.param)


@pytest.fixture
def cell(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell()


def with_random_weights(module: AnyModule) -> AnyModule:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.copy_(0.5 * noise + (1.0 if parameter.ndim == 1 else 0.0))
    return module


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / (1 + np.exp(-x))


def random_tensor(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)
