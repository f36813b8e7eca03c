"""The stacks inside the implicit language models: one injection for all layers, no head.

| code             | paper | meaning                                                                        |
|------------------|-------|--------------------------------------------------------------------------------|
| ``injections``   | x     | one Linear with a bias of RMSNorm(embedding), added to the input projection of |
|                  |       | every layer: a shared map of the token, the same in all iterations             |

Source: the language models of Schöne et al. 2025, arXiv 2502.07827, as their public code has them.
"""

from typing import ClassVar

from torch import Tensor, nn

from implicit.cells import AttentionCell, Cell
from implicit.cells.attention import AttentionSizes
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import ModelConfig
from implicit.models.registry import ImplicitLlamaStackConfig, ImplicitMamba2


class SharedInjection(ImplicitModel):
    """An implicit stack whose layers share one injection with a bias."""

    def _make_injections(self) -> nn.ModuleList:
        (size,) = {cell.injection_size for cell in self.cells}
        return nn.ModuleList([nn.Linear(self.config.d_model, size)])

    def _inject(self, tokens: Tensor) -> list[Tensor]:
        shared = self.injections[0](self.embedding_norm(self.embedding(tokens)))
        return [shared] * self.config.layers


class ImplicitLlamaBackboneConfig(ImplicitLlamaStackConfig, AttentionSizes):
    """Sizes of an `ImplicitLlamaBackbone` and how it finds its fixed point outside of training."""


class ImplicitMamba2Backbone(SharedInjection, ImplicitMamba2):
    """Mamba-2 layers iterated to a fixed point, with one injection."""

    name: ClassVar[str] = "implicit-mamba2-backbone"


class ImplicitLlamaBackbone(SharedInjection):
    """Llama blocks iterated to a fixed point, with one injection.

    A token attends to the tokens before it at their fixed points, and to itself at its latent.
    """

    name: ClassVar[str] = "implicit-llama-backbone"
    config_class: ClassVar[type[ModelConfig]] = ImplicitLlamaBackboneConfig
    cell_class: ClassVar[type[Cell]] = AttentionCell
