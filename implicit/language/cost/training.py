"""What a phase and a whole run of training cost, and the time that they take on given devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from automata.checks import check_number
from automata.errors import InputError
from implicit.language.configuration import FixedPoints, LanguageModelConfig
from implicit.language.cost.flops import Evaluation, Flops, outside_layers
from implicit.language.pretrain.config import PAPER_PHASES, Phase


@dataclass(frozen=True)
class TrainingCost:
    """Floating-point operations of training a model.

    A step evaluates the layers of an implicit model ``iterations + phantom_steps + 1`` times without
    gradient, the last of which measures the residual, and ``phantom_steps`` times with it. Whether the
    iteration is damped changes none of this.

    Attributes:
        config: of the model.
        length: tokens of a sequence.
        gradient_checkpointing: whether the backward pass computes the layers once more.

    Example:
        With one phantom step after four iterations the layers are run seven times forward, and once
        backward, which costs twice as much: nine times what an evaluation costs.

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

        Iterations are the evaluations without gradient that the sequences of a batch take in the mean, the
        slowest of each batch being what counts; the limit of the phase if None, an upper bound.

        Raises:
            InputError: an implicit model is given no phase, or the iterations lie outside of its limit.
        """
        around = outside_layers(self.config, self.length)
        layers = self._of_layers(Evaluation.of(self.config, self.length).total, phase, iterations)
        return (layers + around.forward + around.backward) / self.length

    def mixing_share(self, phase: Phase | None = None, iterations: float | None = None) -> float:
        """Return which share of the operations the scans or the attention are; arguments of `per_token`."""
        mixing = self._of_layers(Evaluation.of(self.config, self.length).mixing, phase, iterations)
        return mixing / self.length / self.per_token(phase, iterations)

    def mean_per_token(self, phases: Sequence[Phase], iterations: Sequence[float | None] = ()) -> float:
        """Return the operations per token of a run, the mean over its phases, whose shares sum to 1.

        Iterations are given for each phase as in `per_token`; the limits if empty.
        """
        given = iterations or [None] * len(phases)
        if len(given) != len(phases):
            raise InputError(
                f"iterations has {len(given)} numbers for {len(phases)} phases; give one for each, or none"
            )
        return sum(
            phase.share * self.per_token(phase, mean) for phase, mean in zip(phases, given, strict=True)
        )

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


def tokens_per_second(flops_per_token: float, devices: int, peak: float, utilisation: float) -> float:
    """Return how many tokens devices read per second: a prediction, as good as the utilisation.

    That is the share of the peak, operations per second of a device, that is reached; nobody knows it
    beforehand.

    Raises:
        InputError: the utilisation is not above 0 and at most 1.

    Example:
        >>> tokens_per_second(1e9, devices=8, peak=1e15, utilisation=0.5)
        4000000.0
    """
    if not 0 < check_number("utilisation", utilisation) <= 1:
        raise InputError(f"utilisation is {utilisation}; give a share above 0 and at most 1")
    return devices * peak * utilisation / flops_per_token


def highest_utilisation(slow_share: float, slowdown: float) -> float:
    """Return the utilisation that is left where a share of the operations runs so many times slower."""
    return 1 / (1 - slow_share + slow_share * slowdown)
