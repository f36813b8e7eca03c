"""Affine forms c + Σ aₖ ξₖ ± e: what is linear in the coordinates of a cell, and a bound of all that is not.

**Rounding.** Every sum here and in `implicit.enclosed.latent_cells` has fewer than 2⁶ terms, and each term
fewer than 2⁵ roundings and functions of relative error 2⁻⁴⁴, so that a computed number is off by less than
2⁻³⁸ of the sum of the absolute values of its terms; `SLACK` times an upper bound of that sum is added to the
error of every form.
"""

from dataclasses import dataclass

import numpy as np

from theory.rigorous.balls import Ball, functions
from theory.rigorous.balls.ball import Array

SLACK = 2.0**-38
SILU_BEND = (-0.1, 0.5)
"""silu'' lies between them; `tests/implicit/enclosed/test_latent_cells.py` proves both in FLINT."""
SILU_TURN = 0.35
"""More than |silu'''|."""

LEAST_SILU = -0.28
LEAST_AT = -1.27
"""silu rises from here on, and is nowhere below `LEAST_SILU`."""


@dataclass(frozen=True, eq=False)
class Affine:
    """c + Σ aₖ ξₖ ± e for all |ξₖ| ≤ 1, or, if round, for all |ξ| ≤ 1: ``[N, n]``, ``[N, n, k]``, ``[N, n]``.

    Example:
        >>> Affine(np.zeros((1, 1)), np.array([[[3.0, 4.0]]]), np.zeros((1, 1)), round=True).reach.round(6)
        array([[5.]])
    """

    c: Array
    a: Array
    e: Array
    round: bool = False

    @property
    def reach(self) -> Array:
        """How far from c it comes, an upper bound."""
        if self.round:
            return (np.sqrt(np.square(self.a).sum(-1)) + self.e) * (1 + SLACK)
        return (np.abs(self.a).sum(-1) + self.e) * (1 + SLACK)


def silu(x: Affine) -> Affine:
    """Return x σ(x), by its second-order Taylor polynomial at c.

    Example:
        >>> y = silu(Affine(np.array([[1.0]]), np.array([[[0.5]]]), np.zeros((1, 1))))
        >>> ends = np.array([0.5, 1.5]) / (1 + np.exp(-np.array([0.5, 1.5])))
        >>> bool((y.c[0, 0] - y.reach[0, 0] <= ends.min()) & (ends.max() <= y.c[0, 0] + y.reach[0, 0]))
        True
    """
    r, centre = x.reach, Ball.exact(x.c)
    sigma = functions.sigmoid(centre).midpoint
    value, slope = x.c * sigma, sigma * (1 + x.c * (1 - sigma))
    bend = sigma * (1 - sigma) * (2 - x.c * (2 * sigma - 1))
    most = np.clip(bend + SILU_TURN * r + SLACK, 0.0, SILU_BEND[1]) * r * r / 2
    least = np.clip(bend - SILU_TURN * r - SLACK, SILU_BEND[0], 0.0) * r * r / 2
    size = (np.abs(x.c) + 1) * (1 + 2 * r) + r * r
    return Affine(
        value + (most + least) / 2,
        x.a * slope[..., None],
        x.e * np.abs(slope) + (most - least) / 2 + SLACK * size,
        x.round,
    )


def silu_range(x: Affine) -> tuple[Array, Array]:
    """Return bounds of x σ(x) from below and above: it falls, and then rises.

    Example:
        >>> low, high = silu_range(Affine(np.array([[0.0]]), np.array([[[1.0]]]), np.zeros((1, 1))))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([[-0.2689]], [[0.7311]])
    """
    r = x.reach
    low, high = (functions.silu(Ball.exact(x.c + sign * r)) for sign in (-1, 1))
    least = np.where(x.c - r >= LEAST_AT, low.lower, LEAST_SILU)
    return least, np.maximum(low.upper, high.upper)


def mapped(matrix: Array, x: Affine) -> Affine:
    """Return the image under a matrix ``[k, n]``.

    Example:
        >>> x = Affine(np.array([[1.0, 2.0]]), np.zeros((1, 2, 1)), np.zeros((1, 2)))
        >>> mapped(np.array([[1.0, 1.0]]), x).c
        array([[3.]])
    """
    e = (x.e * (1 + SLACK) + SLACK * (np.abs(x.c) + x.reach)) @ np.abs(matrix).T
    return Affine(x.c @ matrix.T, np.matmul(matrix, x.a), e, x.round)


def along(x: Affine, unit: Array) -> tuple[Array, Array]:
    """Return linear part and error of Σ uᵢ xᵢ, ``[N, 1, k]`` and ``[N, 1]``.

    Example:
        >>> x = Affine(np.array([[1.0, 2.0]]), np.ones((1, 2, 1)), np.zeros((1, 2)))
        >>> along(x, np.array([[0.5, 0.5]]))[0]
        array([[[1.]]])
    """
    size = np.abs(unit)
    error = (size * (x.e * (1 + SLACK) + SLACK * (np.abs(x.c) + x.reach))).sum(1)
    return np.matmul(unit[:, None], x.a), error[:, None]


def plus(left: Affine, right: Affine) -> Affine:
    """Return the sum.

    Example:
        >>> x = Affine(np.array([[1.0]]), np.ones((1, 1, 1)), np.zeros((1, 1)))
        >>> plus(x, x).a
        array([[[2.]]])
    """
    c, a = left.c + right.c, left.a + right.a
    size = np.abs(left.c) + np.abs(right.c) + left.reach + right.reach
    return Affine(c, a, left.e + right.e + SLACK * size, left.round)


def times(left: Affine, right: Affine) -> Affine:
    """Return the product; of aₖ bₖ ξₖ² in a box, which lies between 0 and aₖ bₖ, half belongs to the centre.

    Example:
        >>> x = Affine(np.array([[1.0]]), np.ones((1, 1, 1)), np.zeros((1, 1)))
        >>> square = times(x, x)  # 1 + 2 ξ + ξ²
        >>> square.c, square.a, square.e.round(6)
        (array([[1.5]]), array([[[2.]]]), array([[0.5]]))
    """
    near, far = left.reach, right.reach
    c, e = left.c * right.c, near * far + np.abs(left.c) * right.e + np.abs(right.c) * left.e
    if not left.round:
        squares = left.a * right.a
        c, e = c + squares.sum(-1) / 2, e - np.abs(squares).sum(-1) / 2
    a = left.a * right.c[..., None] + right.a * left.c[..., None]
    return Affine(c, a, e + SLACK * (np.abs(left.c) + near) * (np.abs(right.c) + far), left.round)
