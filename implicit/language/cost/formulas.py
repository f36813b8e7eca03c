"""The cost of training by formula: floating-point operations, and bytes on a device.

| code                      | what is counted, for one sequence                                             |
|---------------------------|-------------------------------------------------------------------------------|
| ``projections``           | products with the matrices of a layer: in_proj, out_proj, and those of an MLP |
| ``mixing``                | the SSD scan in chunks, or attention without skipping its masked half         |
| ``convolution``           | the short convolution of Mamba-2                                              |
| ``head``, ``injection``   | features to logits; embedding to what every layer adds                        |

A multiplication and an addition are two operations. Norms, gates, activations, softmax, decays, rotations and
the optimizer are left out. The scan is that of `implicit.ops.ssd.ssd_chunked`: its backward pass computes
states and scores once more.

An implicit model holds the activations of its phantom steps only. In ``"bf16"``, autocast, products are in
bfloat16; norms, streams, scan, softmax, weights, gradients and moments are in float32. Bytes leave out what
single operations write and drop again, numbers per token, the allocator's losses and the buffers of NCCL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from automata.checks import check_integer, check_number
from automata.errors import InputError
from implicit.language.configuration import FixedPoints, LanguageModelConfig, LlamaLayers, Mamba2Layers
from implicit.language.pretrain.config import PAPER_PHASES, Phase
from implicit.language.sizes import injection_size, parameter_count
from implicit.ops.ssd.chunked import CHUNK_SIZE


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of a part of a model, for one sequence.

    ``again`` is what gradient checkpointing computes a second time for the gradient.
    """

    forward: int = 0
    backward: int = 0
    again: int = 0

    @classmethod
    def of_products(cls, forward: int) -> Self:
        """Return those of matrix products, each of which has two in its gradient, one for either factor."""
        return cls(forward, 2 * forward, forward)

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.forward + other.forward, self.backward + other.backward, self.again + other.again)

    def __mul__(self, times: int) -> "Flops":
        return Flops(times * self.forward, times * self.backward, times * self.again)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of all layers on one sequence: matrix products, scan or attention, convolution."""

    projections: Flops
    mixing: Flops
    convolution: Flops

    @property
    def total(self) -> Flops:
        """All of it."""
        return self.projections + self.mixing + self.convolution

    @classmethod
    def of(cls, config: LanguageModelConfig, length: int) -> Self:
        """Count, for a sequence of so many tokens.

        InputError if the length is below 1.
        """
        check_integer("length", length, 1)
        if isinstance(config, Mamba2Layers):
            parts = _of_mamba2(config, length)
        else:
            assert isinstance(config, LlamaLayers)
            parts = _of_llama(config, length)
        layers = config.num_hidden_layers
        return cls(*(part * layers for part in parts))


def outside_layers(config: LanguageModelConfig, length: int) -> Flops:
    """Count what a step computes once: head, and injection of an implicit model. It is not checkpointed."""
    columns = config.vocab_size
    if isinstance(config, FixedPoints):
        columns += injection_size(config)
    once = 2 * length * config.hidden_size * columns
    return Flops(once, 2 * once)


def _of_mamba2(config: Mamba2Layers, length: int) -> tuple[Flops, Flops, Flops]:
    """Projections, scan and convolution of a layer."""
    inner = config.expand * config.hidden_size
    into, out = (2 * length * width * config.hidden_size for width in (injection_size(config), inner))
    # Checkpointing computes again up to the last tensor that the gradient needs: the input of out_proj.
    projections = Flops(into + out, 2 * (into + out), into)
    chunks = [min(CHUNK_SIZE, length - start) for start in range(0, length, CHUNK_SIZE)]
    forward = backward = 0
    for tokens in chunks:
        scores = 2 * config.n_groups * tokens**2 * config.state_size  # C Bᵀ
        within = 2 * inner * tokens**2  # their product with x
        across = 2 * inner * tokens * config.state_size  # with the state, or into it
        forward += scores + within + 2 * across
        backward += 3 * scores + 2 * within + 6 * across
    backward -= 2 * inner * chunks[-1] * config.state_size  # no state is carried behind the last chunk
    channels = inner + 2 * config.n_groups * config.state_size
    taps = 2 * length * channels * config.conv_kernel
    # Its gradient computes it again, and one product for either factor.
    return projections, Flops(forward, backward, forward), Flops(taps, 3 * taps, taps)


def _of_llama(config: LlamaLayers, length: int) -> tuple[Flops, Flops, Flops]:
    """Projections with those of the MLP, attention, and no convolution."""
    width, hidden = config.hidden_size, config.intermediate_size
    before = 2 * length * width * (injection_size(config) + width + 2 * hidden)
    last = 2 * length * hidden * width
    projections = Flops(before + last, 2 * (before + last), before)  # recomputing stops before the last
    return projections, Flops.of_products(4 * length**2 * width), Flops()


@dataclass(frozen=True)
class TrainingCost:
    """Floating-point operations of training a model.

    A step evaluates the layers of an implicit model ``iterations + phantom_steps + 1`` times without
    gradient, the last of which measures the residual, and ``phantom_steps`` times with it. With gradient
    checkpointing the backward pass computes the layers once more. ``length`` is tokens of a sequence.

    Example:
        The layers are run seven times forward, and once backward, which costs twice as much.

        >>> from implicit.language import published_config
        >>> cost = TrainingCost(published_config("llama", "130m"))
        >>> phase = Phase(share=1, iterations=4, phantom_steps=1, rtol=0)
        >>> once = 2048 * cost.per_token(phase) - outside_layers(cost.config, 2048).forward * 3
        >>> once / Evaluation.of(cost.config, 2048).total.forward
        9.0
    """

    config: LanguageModelConfig
    length: int = 2048
    gradient_checkpointing: bool = False

    def per_token(self, phase: Phase | None = None, iterations: float | None = None) -> float:
        """Return the operations per token of a step; an explicit model has no phase.

        Iterations are the evaluations without gradient that the slowest sequence of a batch takes; the limit
        of the phase if None, an upper bound. InputError if an implicit model is given no phase, or the
        iterations lie outside of its limit.
        """
        around = outside_layers(self.config, self.length)
        layers = self._of_layers(Evaluation.of(self.config, self.length).total, phase, iterations)
        return (layers + around.forward + around.backward) / self.length

    def mixing_share(self, phase: Phase | None = None) -> float:
        """Return which share of the operations the scans or the attention are."""
        mixing = self._of_layers(Evaluation.of(self.config, self.length).mixing, phase, None)
        return mixing / self.length / self.per_token(phase)

    def mean_per_token(self, phases: Sequence[Phase]) -> float:
        """Return the operations per token of a run, the mean over its phases, whose shares sum to 1."""
        return sum(phase.share * self.per_token(phase) for phase in phases)

    def _of_layers(self, part: Flops, phase: Phase | None, iterations: float | None) -> float:
        """The operations of a part of the layers, for a sequence."""
        back = part.backward + (part.again if self.gradient_checkpointing else 0)
        if not isinstance(self.config, FixedPoints):
            return part.forward + back
        if phase is None:
            raise InputError("phase is None; give the phase in which the implicit model trains")
        limit = phase.iterations + phase.phantom_steps + 1  # the last evaluation measures the residual
        mean = limit if iterations is None else check_number("iterations", iterations)
        if not 1 <= mean <= limit:
            raise InputError(f"iterations is {mean:g}; give a mean from 1 to the limit of the phase, {limit}")
        return (mean + phase.phantom_steps) * part.forward + phase.phantom_steps * back


def published_phases(family: str) -> tuple[Phase, ...]:
    """Return the curriculum of Schöne et al. 2025 for a family.

    Example:
        >>> [phase.label for phase in published_phases("llama")]
        ['4+1', '32+4']
    """
    if family == "mamba2":
        return PAPER_PHASES
    bounded, free = PAPER_PHASES
    return bounded, Phase(**{**free.model_dump(), "iterations": 32})


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
    """Return the bytes of the states of all layers, those before the sequence and those behind it."""
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
