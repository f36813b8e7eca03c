"""The Transformer, explicit and implicit: attention in Llama blocks, whose state grows with every token.

The state is the cache of keys and values. In the implicit one the latent of a token is solved for with the
keys and values of the tokens before it, at their fixed points, and its own, which change with the latent.
"""

from pydantic import Field, NonNegativeInt

from implicit.cells import AttentionCell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import ImplicitConfig, implicit_model
from implicit.models.stack import StackConfig


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


class ImplicitLlamaStackConfig(LlamaStackConfig, ImplicitConfig):
    """Sizes of a stack of Llama blocks that is iterated, and how it finds its fixed point."""


ImplicitTransformer = implicit_model(
    "implicit-transformer",
    AttentionCell,
    "Llama blocks iterated to a fixed point at every token",
    base=ImplicitLlamaStackConfig,
)
