"""Models that are stacks of one cell, and their implicit twins."""

from typing import ClassVar

from pydantic import Field, NonNegativeInt

from implicit.cells import (
    AttentionCell,
    Cell,
    DeltaNetCell,
    GatedDeltaNetCell,
    GatedDeltaProductCell,
    Mamba2Cell,
    Mamba3Cell,
    PDSSMCell,
)
from implicit.cells.mamba2 import Mamba2Sizes
from implicit.models.explicit import ExplicitModel, explicit_model
from implicit.models.implicit_model import ImplicitConfig, ImplicitModel, implicit_model
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


Mamba3 = explicit_model("mamba3", Mamba3Cell, "Mamba-2 whose state is also turned, in pairs of entries")
ImplicitMamba3 = implicit_model(
    "implicit-mamba3", Mamba3Cell, "Mamba-3 layers iterated to a fixed point at every token"
)
DeltaNet = explicit_model("deltanet", DeltaNetCell, "linear, not diagonal: one Householder step per token")
GatedDeltaNet = explicit_model("gated-deltanet", GatedDeltaNetCell, "DeltaNet whose memory also decays")
GatedDeltaProduct = explicit_model(
    "gated-deltaproduct", GatedDeltaProductCell, "several Householder steps per token, with decay"
)
ImplicitDeltaNet = implicit_model(
    "implicit-deltanet", DeltaNetCell, "DeltaNet layers iterated to a fixed point at every token"
)
ImplicitGatedDeltaNet = implicit_model(
    "implicit-gated-deltanet", GatedDeltaNetCell, "gated DeltaNet layers iterated to a fixed point"
)
ImplicitGatedDeltaProduct = implicit_model(
    "implicit-gated-deltaproduct",
    GatedDeltaProductCell,
    "gated DeltaProduct layers iterated to a fixed point",
)
# No implicit twin: its self-map would jump where the latent changes the choice of P, and there need not be a
# fixed point.
PDSSM = explicit_model(
    "pd-ssm",
    PDSSMCell,
    "linear, not diagonal: entries of the state are moved, as the token says, and multiplied",
)


class LlamaStackConfig(StackConfig):
    """Sizes of a stack of Llama blocks: attention, then a SwiGLU MLP."""

    mlp_size: NonNegativeInt = Field(
        default=128, description="hidden features of a SwiGLU MLP after every cell; 0 for no MLP"
    )


Transformer = explicit_model(
    "transformer",
    AttentionCell,
    "Llama blocks: rotary attention with grouped heads, SwiGLU",
    base=LlamaStackConfig,
)


# The latent of a token is solved for with the keys and values of the tokens before it, at their fixed points,
# and its own, which change with the latent.
class ImplicitLlamaStackConfig(LlamaStackConfig, ImplicitConfig):
    """Sizes of a stack of Llama blocks that is iterated, and how it finds its fixed point."""


ImplicitTransformer = implicit_model(
    "implicit-transformer",
    AttentionCell,
    "Llama blocks iterated to a fixed point at every token",
    base=ImplicitLlamaStackConfig,
)
