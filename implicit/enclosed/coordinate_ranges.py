"""Ranges of the coordinates of many cells, and what spheres leave of them; all ends are moved outwards."""

import numpy as np

from implicit.enclosed.affine import SLACK
from theory.rigorous.balls.ball import Array

MARGIN = 1e-9
"""By how much ends of cells are moved outwards when a cell is tightened: far more than rounding."""


def largest(linear: Array, sphere: tuple[Array, Array, Array, Array] | None) -> Array:
    """Return an upper bound of Σ aₖ ξₖ over |ξₖ| ≤ 1, ``[N, m]``.

    Args:
        linear: a, ``[N, m, k]``.
        sphere: r, |r|², and bounds of r ξ that hold as well, ``[N, k]`` and three times ``[N]``; None if
            nothing else is known.

    Example:
        >>> ones, known = np.ones((1, 1, 2)), (np.ones((1, 2)), np.array([2.0]), -np.ones(1), np.ones(1))
        >>> largest(ones, None).round(6).item(), largest(ones, known).round(6).item()
        (2.0, 1.0)
    """
    found = np.abs(linear).sum(-1)
    if sphere is None:
        return found * (1 + SLACK)
    radial, squared, low, high = sphere
    rows, axis = np.arange(len(radial)), np.abs(radial).argmax(1)
    main = radial[rows, axis]
    main = np.where(np.abs(main) < 1e-30, 1e-30, main)
    for factor in (
        (linear * radial[:, None]).sum(-1) / squared[:, None],
        linear[rows, :, axis] / main[:, None],
    ):
        beyond = np.where(factor > 0, factor * high[:, None], factor * low[:, None])
        rest = np.abs(linear - factor[..., None] * radial[:, None]).sum(-1)
        size = np.abs(factor) * (np.abs(high) + np.abs(low) + np.abs(radial).sum(1) + 1)[:, None]
        found = np.minimum(found, rest + beyond + SLACK * size)
    return found * (1 + SLACK) + SLACK * np.abs(linear).sum(-1)


def squares(lo: Array, hi: Array) -> tuple[Array, Array]:
    """Return bounds of x² for lo ≤ x ≤ hi, from below and from above.

    Example:
        >>> [bound.tolist() for bound in squares(np.array([-1.0, 2.0]), np.array([3.0, 3.0]))]
        [[0.0, 4.0], [9.0, 9.0]]
    """
    near = np.maximum(np.maximum(lo, -hi), 0)
    return np.square(near), np.square(np.maximum(np.abs(lo), np.abs(hi)))


def within_ball(lo: Array, hi: Array, squared: float) -> tuple[Array, Array]:
    """Return the ranges that hold all of the box in the ball Σ xₖ² ≤ squared.

    Example:
        >>> lower, upper = within_ball(np.array([[3.0, -9.0]]), np.array([[4.0, 9.0]]), 25.0)
        >>> lower.round(3).tolist(), upper.round(3).tolist()
        ([[3.0, -4.0]], [[4.0, 4.0]])
    """
    near, _ = squares(lo, hi)
    side = np.sqrt(np.maximum(squared - (near.sum(1)[:, None] - near), 0)) + MARGIN
    return np.maximum(lo, -side), np.minimum(hi, side)


def outside_ball(lo: Array, hi: Array, squared: Array) -> tuple[Array, Array]:
    """Return the ranges that hold all of the box outside of the ball, where it reaches it from one side only.

    A box within the ball begins at infinity.

    Example:
        >>> lower, upper = outside_ball(np.array([[0.0, 0.0]]), np.array([[9.0, 3.0]]), np.array([25.0]))
        >>> lower.round(3).tolist(), upper.tolist()
        ([[4.0, 0.0]], [[9.0, 3.0]])
    """
    _, far = squares(lo, hi)
    needed = squared[:, None] - (far.sum(1)[:, None] - far)
    side = np.sqrt(np.maximum(needed, 0)) - MARGIN
    lower = np.where((needed > 0) & (lo > -side), np.maximum(lo, side), lo)
    upper = np.where((needed > 0) & (hi < side), np.minimum(hi, -side), hi)
    empty = far.sum(1) < squared
    lower[empty] = np.inf
    return lower, upper
