"""The few numbers behind the weights of a compiled automaton, and what each of them has to be."""

import math
from dataclasses import dataclass

from automata.errors import InputError


@dataclass(frozen=True)
class Gains:
    """How strongly each part of a compiled automaton acts.

    Attributes:
        decay: λ, by which the memory of a token fades with every token after it. All older tokens together
            weigh at most λ/(1−λ) of the last one: 1/15 for 1/16.
        sharpness: K, the slope with which the latent decides what is written. A coordinate that is on writes
            about K/2, one that is off writes at most K/3·exp(−K/3).
        start: what the constant second head holds of the initial state, as a share of the memory of a token.
            It has to be less than a memory and more than nothing.
        dominance: R, the length of what the layer adds to the latent, in lengths of the latent. The self-map
            contracts by 1/(R−2).

    Raises:
        InputError: for a gain that is out of range.

    Example:
        >>> Gains().decay, Gains(sharpness=100).sharpness
        (0.0625, 100)
        >>> Gains(decay=0.5)
        Traceback (most recent call last):
        automata.errors.InputError: decay is 0.5; give more than 0 and at most 1/16
    """

    decay: float = 1 / 16
    sharpness: float = 64.0
    start: float = 1 / 16
    dominance: float = 128.0

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1 / 16:
            raise InputError(f"decay is {self.decay}; give more than 0 and at most 1/16")
        if not (math.isfinite(self.sharpness) and self.sharpness >= 64):
            raise InputError(f"sharpness is {self.sharpness}; give a number of at least 64")
        if not 0 < self.start <= 1 / 16:
            raise InputError(f"start is {self.start}; give more than 0 and at most 1/16")
        if not (math.isfinite(self.dominance) and self.dominance >= 16):
            raise InputError(f"dominance is {self.dominance}; give a number of at least 16")
