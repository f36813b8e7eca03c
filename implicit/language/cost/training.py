"""The cost of a phase and of a whole run of training: floating-point operations, and time on given devices.

| code                      | what is counted, for one sequence                                             |
|---------------------------|-------------------------------------------------------------------------------|
| ``projections``           | products with the matrices of a layer: in_proj, out_proj, and those of an MLP |
| ``mixing``                | the SSD scan in chunks, or attention without skipping its masked half         |
| ``convolution``           | the short convolution of Mamba-2                                              |
| ``head``, ``injection``   | features to logits; embedding to what every layer adds                        |

A multiplication and an addition are two operations. Norms, gates, activations, softmax, decays, rotations and
the optimizer are left out. The scan is that of `implicit.ops.ssd.ssd_chunked`: its backward pass computes
states and scores once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from automata.checks import check_integer, check_number
from automata.errors import InputError
from implicit.language.configuration import FixedPoints, LanguageModelConfig, LlamaLayers, Mamba2Layers
from implicit.language.pretrain.config import PAPER_PHASES, Phase
from implicit.language.sizes import injection_size
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
    """One evaluation of all layers on one sequence: products with matrices, scan or attention, convolution.

    Example:
        >>> from implicit.language import published_config
        >>> found = Evaluation.of(published_config("llama", "130m"), length=2048)
        >>> found.projections.forward // 2048  # twice the weights of the layers, per token
        169869312
        >>> found.total == found.projections + found.mixing
        True
    """

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
    """Count what a step computes once: head, and injection of an implicit model. It is not checkpointed.

    Example:
        >>> from implicit.language import published_config
        >>> outside_layers(published_config("llama", "130m", implicit=False), 1).forward  # 2 · 768 · 50277
        77225472
    """
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
