"""The four numbers that a compiled automaton depends on, and what each of them is for."""

import math
from dataclasses import dataclass

from automata.errors import InputError


@dataclass(frozen=True)
class Gains:
    """The strengths of the parts of a compiled automaton.

    Attributes:
        decay: λ, by which the memory of a token fades with every token after it. All older tokens together
            weigh λ/(1−λ) of the last one, 1/15 for 1/16: so the last one wins, and nothing has to be erased.
        sharpness: K = sharpness + 4 log(states), the slope with which the latent decides what is written. A
            coordinate that is on writes about K/2, one that is off at most about K/4·exp(−K/4).
        start: what the constant channels say of the initial state, as a share of the memory of a token: less
            than any memory, so that it is overruled, and more than nothing, so that the first token reads it.
        dominance: the length of what the layer adds to the latent is dominance·√latents, in lengths of the
            latent. The iteration contracts by the inverse of it, to within a fifth.

    Raises:
        InputError: for a gain out of range. Within the ranges the proof's inequalities hold for the machines
            that were tried; `bounds_of` proves them for each model.

    Example:
        >>> Gains().decay, Gains(sharpness=100).sharpness
        (0.0625, 100)
        >>> Gains(decay=0.5)
        Traceback (most recent call last):
        automata.errors.InputError: decay is 0.5; give a number from 2**-12 to 1/16
    """

    decay: float = 1 / 16
    sharpness: float = 64.0
    start: float = 1 / 16
    dominance: float = 128.0

    def __post_init__(self) -> None:
        for field, least, most, words in (
            ("decay", 2**-12, 1 / 16, "from 2**-12 to 1/16"),
            ("sharpness", 64, 512, "from 64 to 512"),
            ("start", 2**-8, 1 / 16, "from 2**-8 to 1/16"),
            ("dominance", 64, 4096, "from 64 to 4096"),
        ):
            value = getattr(self, field)
            if not (math.isfinite(value) and least <= value <= most):
                raise InputError(f"{field} is {value}; give a number {words}")
