"""What a program's rounding adds to a step: what the proofs of `theory.rigorous.covers` ask of a program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import Array, Ball


@dataclass(frozen=True, eq=False)
class StepRounding:
    """By how much a program may be off at T positions, wherever its latents and states are in their boxes."""

    step: Array  # the next iterate, and the damping times the residual, in the Euclidean norm, [T]
    state: Array  # the next state, in the Euclidean norm, [T]
    logits: Array  # each of them, [T]


class Program(Protocol):
    """A program that computes (Φ, G) in floating point; the package of the models supplies it."""

    def rounding(self, latent: Ball, state: Ball, tokens: Sequence[int] | NDArray[np.int64]) -> StepRounding:
        """Bound what it may be off.

        Args:
            latent: boxes that hold the latents that the program has, ``[T, d]``.
            state: boxes that hold its states, ``[T, n]``.
            tokens: ``[T]``.
        """
