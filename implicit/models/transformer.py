"""The Transformer: attention in Llama blocks, whose state, the key-value cache, grows with every token."""

from pydantic import Field, NonNegativeInt

from implicit.cells import AttentionCell
from implicit.models.explicit import explicit_model
from implicit.models.stack import StackConfig


class LlamaStackConfig(StackConfig):
    """Sizes of a stack of Llama blocks: attention, then a SwiGLU MLP.

    Example:
        >>> LlamaStackConfig(vocabulary_size=2, output_size=2).mlp_size
        128
    """

    mlp_size: NonNegativeInt = Field(
        default=128, description="hidden features of a SwiGLU MLP after every cell; 0 for no MLP"
    )


Transformer = explicit_model(
    "transformer",
    AttentionCell,
    "Llama blocks: rotary attention with grouped heads, SwiGLU",
    base=LlamaStackConfig,
)
