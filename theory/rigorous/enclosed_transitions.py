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
    """One layer's h' = decay ⊙ h + drive, enclosed.

    Attributes:
        coefficients: everything that decay and drive are computed from, ``[T, c]``: where none of it depends
            on h, the update is affine in h with a diagonal matrix.
    """

    @property
    def coefficients(self) -> Dual:
        """See above."""
        ...

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        """Return decay and drive of one entry of h at each position, ``[T, 1]`` each."""
        ...


class EnclosedTransitions(Protocol):
    """(Φ, G) of the tokens at T positions, evaluated on balls; the package of the models supplies it.

    Attributes:
        latent_size: the number d of entries of z; 0 for an explicit model.
        damping: τ of the iteration.
        blocks: the name of the state h of each layer.
    """

    @property
    def latent_size(self) -> int:
        """See above."""
        ...

    @property
    def damping(self) -> float:
        """See above."""
        ...

    @property
    def blocks(self) -> tuple[str, ...]:
        """See above."""
        ...

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
        ...
