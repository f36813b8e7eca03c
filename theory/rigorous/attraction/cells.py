"""Prove cuts over a whole set: cells that cover it are bisected until the bound holds on each of them.

How a cell is bounded is for the model's package to say (`CellMap`); here is only the bookkeeping. A cut counts only if
no cell is left: a cell that is given up, as one beyond the limit, proves nothing.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.attraction.polytope import Polytope
from theory.rigorous.balls.ball import Array

BATCH = 2048
"""Cells that are bounded at once: arrays of this many stay in the processor's cache."""


class CellMap(Protocol):
    """A self-map that can be bounded on cells, boxes of coordinates of latents.

    Example:
        That of a small Mamba-2 model is `implicit.enclosed.latent_cells.LatentCells`.
    """

    def cover(self, inside: Polytope) -> tuple[Array, Array]:
        """Return lower and upper ends of cells, ``[N, n]`` each, whose latents are all of the set's."""
        ...

    def tighten(self, lower: Array, upper: Array, inside: Polytope) -> tuple[NDArray[np.bool_], Array, Array]:
        """Return which cells may hold a latent of the set, and cells that hold the same of them, not larger."""
        ...

    def excess(self, lower: Array, upper: Array, cuts: Polytope) -> tuple[Array, Array]:
        """Return numbers ``[N, m]`` and what each axis contributes to the largest, ``[N, n]``.

        Where a number is not positive, at every latent y of the cell f·Φ̂(y) ≤ b or f·Φ̂(y) < f·y is proved for
        the direction f and the bound b of that cut.
        """
        ...


@dataclass(frozen=True)
class Examined:
    """What came of an attempt.

    Attributes:
        proved: whether every cell was.
        cells: how many were examined.
        left: how many were waiting when it was given up.

    Example:
        >>> Examined(proved=True, cells=3, left=0).proved
        True
    """

    proved: bool
    cells: int
    left: int


def prove_cuts(cells: CellMap, inside: Polytope, cuts: Polytope, limit: int) -> Examined:
    """Prove that cuts may be made to a set that holds all limit points (`theory.rigorous.attraction.polytope`).

    Args:
        cells: the self-map.
        inside: the set.
        cuts: directions and bounds of all the cuts, proved together.
        limit: cells to examine at most.

    Example:
        Φ̂(y) = y/2 on [−1, 1], on cells of one coordinate, its value at each: f·Φ̂ ≤ 1/2 holds, ≤ −0.1 does not.

        >>> class Half:
        ...     def cover(self, inside):
        ...         return np.array([[-1.0]]), np.array([[1.0]])
        ...
        ...     def tighten(self, lower, upper, inside):
        ...         return np.full(len(lower), True), lower, upper
        ...
        ...     def excess(self, lower, upper, cuts):
        ...         least = cuts.directions[:, 0] * np.where(cuts.directions[:, 0] > 0, lower, upper)
        ...         most = 0.5 * cuts.directions[:, 0] * np.where(cuts.directions[:, 0] > 0, upper, lower)
        ...         return np.where(most < least, -1.0, most - cuts.bounds), upper - lower
        >>> both = np.array([[1.0], [-1.0]])
        >>> prove_cuts(Half(), Polytope.whole(1), Polytope(both, np.array([0.5, 0.5])), limit=100).proved
        True
        >>> prove_cuts(Half(), Polytope.whole(1), Polytope(both, np.array([-0.1, 0.5])), limit=100).proved
        False
    """
    waiting = [cells.cover(inside)]
    examined = 0
    while waiting:
        lower, upper = waiting.pop()
        if len(lower) > BATCH:
            waiting.append((lower[BATCH:], upper[BATCH:]))
            lower, upper = lower[:BATCH], upper[:BATCH]
        while waiting and len(lower) + len(waiting[-1][0]) <= BATCH:
            more = waiting.pop()
            lower, upper = np.concatenate([lower, more[0]]), np.concatenate([upper, more[1]])
        examined += len(lower)
        alive, lower, upper = cells.tighten(lower, upper, inside)
        lower, upper = lower[alive], upper[alive]
        if len(lower):
            excess, contributions = cells.excess(lower, upper, cuts)
            open_ones = ~(excess <= 0).all(1)  # NaN proves nothing
            if open_ones.any():
                waiting.append(_bisected(lower[open_ones], upper[open_ones], contributions[open_ones]))
        if examined >= limit and waiting:
            return Examined(proved=False, cells=examined, left=sum(len(part) for part, _ in waiting))
    return Examined(proved=True, cells=examined, left=0)


def _bisected(lower: Array, upper: Array, contributions: Array) -> tuple[Array, Array]:
    """Both halves of every cell, along the axis that contributes most."""
    rows = np.arange(len(lower))
    known = np.where(upper > lower, np.nan_to_num(contributions, nan=0.0, posinf=1e300), -1.0)
    axis = known.argmax(1)
    middle = 0.5 * (lower[rows, axis] + upper[rows, axis])
    first, second = upper.copy(), lower.copy()
    first[rows, axis] = second[rows, axis] = middle
    return np.concatenate([lower, second]), np.concatenate([first, upper])
