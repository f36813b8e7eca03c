"""The form in which a model is analysed rigorously: Φ and G on balls, with their derivatives.

It is that of `theory.transition_batch` in another arithmetic: T positions at once, each with its token. Of G,
every layer's update h' = decay ⊙ h + drive is given in factors, so that h' with all its derivatives need not
be formed where one entry of it is wanted.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.dual import Dual


class EnclosedUpdate(Protocol):
    """One layer's h' = decay ⊙ h + drive, enclosed, such as `implicit.enclosed.mamba2.Mamba2Update`."""

    @property
    def coefficients(self) -> Dual:
        """All that decay and drive are computed from, ``[T, c]``.

        Where none of it depends on h, the update is affine in h with a diagonal matrix.
        """

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        """Return decay and drive of one entry of h at each position, ``[T, 1]`` each."""


class EnclosedTransitions(Protocol):
    """(Φ, G) of the tokens at T positions, evaluated on balls; the package of the models supplies it.

    That of a Mamba-2 model is `implicit.enclosed.mamba2.EnclosedMamba2`.
    """

    @property
    def latent_size(self) -> int:
        """The number d of entries of z; 0 for an explicit model."""

    @property
    def damping(self) -> float:
        """τ of the iteration."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The name of the state h of each layer."""

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[EnclosedUpdate]]:
        """Return Φ and the updates of all layers.

        Args:
            latent: ``[T, d]``, with d + (number of layers) directions, or none.
            state: each entry ``[T, …]``.
            directions: for each block the derivative of h in the direction of its layer, direction d + layer;
                shaped like h. Empty if no derivative is asked for.
        """
