"""Mamba-2: the explicit control, and its implicit twin."""

from typing import ClassVar

from implicit.cells import Cell, Mamba2Cell
from implicit.cells.mamba2 import Mamba2Sizes
from implicit.models.explicit import ExplicitModel
from implicit.models.implicit_model import ImplicitConfig, ImplicitModel
from implicit.models.interface import ModelConfig
from implicit.models.stack import StackConfig


class Mamba2Config(StackConfig, Mamba2Sizes):
    """Sizes of a `Mamba2`.

    Example:
        >>> Mamba2Config(vocabulary_size=2, output_size=2).d_state
        16
    """


class Mamba2(ExplicitModel):
    """Mamba-2 layers run once: an ordinary Mamba-2 language model (Dao & Gu 2024, arXiv 2405.21060).

    Example:
        >>> import torch
        >>> model = Mamba2(Mamba2Config(vocabulary_size=3, output_size=5, d_model=8, head_size=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "mamba2"
    description: ClassVar[str] = "the explicit control: the same layers, run once"
    config_class: ClassVar[type[ModelConfig]] = Mamba2Config
    cell_class: ClassVar[type[Cell]] = Mamba2Cell


class ImplicitMamba2Config(ImplicitConfig, Mamba2Sizes):
    """Sizes of an `ImplicitMamba2` and how it finds its fixed point outside of training.

    Example:
        >>> ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=32).layers
        1
    """


class ImplicitMamba2(ImplicitModel):
    """Mamba-2 layers iterated to a fixed point at every token (Schöne et al. 2025, arXiv 2502.07827).

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=8, head_size=8)
        >>> model = ImplicitMamba2(config)
        >>> model(torch.tensor([[0, 1, 1, 0]])).shape
        torch.Size([1, 4, 2])
    """

    name: ClassVar[str] = "implicit-mamba2"
    description: ClassVar[str] = "Mamba-2 layers iterated to a fixed point at every token"
    config_class: ClassVar[type[ModelConfig]] = ImplicitMamba2Config
    cell_class: ClassVar[type[Cell]] = Mamba2Cell
