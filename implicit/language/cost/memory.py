"""Bytes that training holds on a device, by formula.

An implicit model holds the activations of its phantom steps only. In ``"bf16"``, autocast, products are in
bfloat16; norms, streams, scan, softmax, weights, gradients and moments are in float32. Left out: what single
operations write and drop again, numbers per token, the allocator's losses and the buffers of NCCL.
"""

from dataclasses import dataclass
from typing import Literal, Self

from automata.checks import check_integer
from implicit.language.configuration import FixedPoints, LanguageModelConfig, LlamaLayers, Mamba2Layers
from implicit.language.sizes import injection_size, parameter_count

Precision = Literal["no", "bf16"]
_FULL = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class WeightMemory:
    """Bytes on one device that do not depend on the batch.

    Weights, gradients and both ``moments`` of AdamW are all of the model, or its share. ``passing`` counts
    the buckets of gradients and the weights that autocast rounds, or, with sharded weights, all weights,
    gathered, and all gradients before they are dealt out.

    Example:
        >>> from implicit.language import published_config
        >>> config = published_config("mamba2", "1.3b")
        >>> [round(WeightMemory.of(config, 8, sharded=sharded).total / 2**30, 1) for sharded in (False, True)]
        [27.9, 7.6]
    """

    weights: float
    gradients: float
    moments: float
    passing: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.moments + self.passing

    @classmethod
    def of(
        cls, config: LanguageModelConfig, processes: int, *, sharded: bool, precision: Precision = "bf16"
    ) -> Self:
        """Count, for AdamW and as many processes, one per device.

        Each process holds a share of the weights if they are sharded (FSDP2, the whole model gathered at
        once) or all (DDP). In ``"bf16"``, autocast, `accelerate` gathers and sums in bfloat16 under FSDP2.
        """
        check_integer("processes", processes, 1)
        weights = _FULL * parameter_count(config)
        rounded = weights // 2 if precision == "bf16" else 0
        if sharded:
            share = weights / processes
            return cls(share, share, 2 * share, 2 * (rounded or weights))
        return cls(weights, weights, 2 * weights, rounded + (weights if processes > 1 else 0))


@dataclass(frozen=True)
class Activations:
    """Bytes that one sequence takes at the end of the forward pass.

    Attributes:
        layers: what the layers hold for the backward pass, of all sweeps with gradient.
        recomputed: what one layer holds while gradient checkpointing computes it again; 0 without.
        around: embedding, injection, last norms and the states of the layers.
        logits: three float32 copies: the logits that are returned, their log-softmax, and its gradient.

    Example:
        >>> from implicit.language import published_config
        >>> config = published_config("mamba2", "130m")
        >>> for checkpointing in (False, True):
        ...     found = Activations.of(config, 2048, phantom_steps=4, gradient_checkpointing=checkpointing)
        ...     print(round(found.total / 2**30, 1))
        8.2
        1.9
    """

    layers: int
    recomputed: int
    around: int
    logits: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.layers + self.recomputed + self.around + self.logits

    @classmethod
    def of(
        cls,
        config: LanguageModelConfig,
        length: int,
        *,
        phantom_steps: int = 1,
        precision: Precision = "bf16",
        gradient_checkpointing: bool = False,
    ) -> Self:
        """Count, for a sequence of so many tokens; an explicit model is evaluated once.

        With gradient checkpointing layers keep only what enters them.
        """
        check_integer("length", length, 1)
        check_integer("phantom_steps", phantom_steps, 1)
        implicit = isinstance(config, FixedPoints)
        sweeps = phantom_steps if implicit else 1
        width = config.hidden_size
        low = 2 if precision == "bf16" else _FULL
        layer = layer_bytes(config, length, precision)
        stream = length * width * _FULL
        norm = length * (2 * width + 1) * _FULL  # what enters, the same normalised, and a factor
        kept = stream if gradient_checkpointing else layer
        around = sweeps * norm + state_bytes(config, length) + length * width * low  # what the head takes
        if implicit:
            around += norm + length * (width + injection_size(config)) * low
        return cls(
            sweeps * config.num_hidden_layers * kept,
            layer if gradient_checkpointing else 0,
            around,
            3 * length * config.vocab_size * _FULL,
        )


def layer_bytes(config: LanguageModelConfig, length: int, precision: Precision = "bf16") -> int:
    """Return the bytes that a layer keeps of one sequence for its backward pass, without checkpointing.

    Example:
        >>> from implicit.language import published_config
        >>> layer_bytes(published_config("llama", "130m"), 2048) / 2048  # per token, 147,456 of it for scores
        187528.0
    """
    low = 2 if precision == "bf16" else _FULL
    width = config.hidden_size
    norm = _FULL * (2 * width + 1) + low * width  # what enters, normalised, its factor; scaled for a product
    if isinstance(config, Mamba2Layers):
        inner = config.expand * width
        heads, channels = inner // config.head_dim, inner + 2 * config.n_groups * config.state_size
        per_token = (
            norm
            + low * (injection_size(config) + inner)  # projected and injected; normalised for out_proj
            + _FULL * (2 * heads + 2 * channels + inner)  # Δ before and after, convolution's both ends, scan
        )
        return length * per_token + _FULL * (config.conv_kernel - 1) * channels
    assert isinstance(config, LlamaLayers)
    heads, hidden = config.num_attention_heads, config.intermediate_size
    size = width // heads
    projected = injection_size(config) + width  # queries, keys and values, and what out_proj multiplies
    scores = heads * (_FULL + (low if low < _FULL else 0))  # softmax in float32, and rounded for the product
    per_token = 2 * norm + low * (projected + size + 4 * hidden) + length * scores
    return length * per_token + length**2  # the mask, a byte for every pair


def state_bytes(config: LanguageModelConfig, length: int) -> int:
    """Return the bytes of the states of all layers, those before the sequence and those behind it.

    Example:
        >>> from implicit.language import published_config
        >>> state_bytes(published_config("mamba2", "1.3b"), 2048) / 2**20
        196.78...
    """
    if isinstance(config, Mamba2Layers):
        inner = config.expand * config.hidden_size
        channels = inner + 2 * config.n_groups * config.state_size
        numbers = 2 * (inner * config.state_size + channels * (config.conv_kernel - 1))
    else:
        assert isinstance(config, LlamaLayers)
        assert config.num_key_value_heads is not None
        size = config.hidden_size // config.num_attention_heads
        numbers = 2 * config.num_key_value_heads * size * length
    return _FULL * config.num_hidden_layers * numbers
