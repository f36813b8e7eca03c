"""Ball: an array of real intervals as midpoints and radii, closed under +, −, ×, ÷ and matrix products.

Why the radii are bounds. IEEE 754 rounds +, −, ×, ÷ and the square root to nearest, so a computed result c
differs from the exact one by at most u |c| with u = 2⁻⁵³, plus less than η where it underflows. A sum of n
products, in any order, with or without fused operations, differs by at most γ |a|ᵀ|b| + n η, where
γ = (n + 2) u / (1 − (n + 2) u) (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1).
The radius itself is a sum of non-negative terms computed with the same arithmetic; it is multiplied by
1 + 2 (n + 16) u, more than its own rounding can have taken away. A number that is exactly zero stays exactly
zero: that is how independence of a variable is proved rather than observed.

Source: Rump 1999, Fast and parallel interval arithmetic, BIT 39 (midpoint-radius arithmetic through BLAS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
UNDERFLOW = 2.0**-1000
"""More than all underflows of one operation can take away, so that denormal numbers need no thought."""


def round_up(radius: Array, operations: int = 0) -> Array:
    """Return at least the exact value of a sum of non-negative terms, of which each took few operations."""
    return radius * (1 + 2 * (operations + 16) * UNIT_ROUNDOFF)


@dataclass(frozen=True, eq=False)
class Ball:
    """Intervals [midpoint − radius, midpoint + radius], one per entry.

    An operation on balls encloses the operation on all real numbers in them. Where that is not defined on a
    whole ball (a division by a ball around zero) the midpoint is NaN and the radius infinite: no comparison
    with it succeeds, and no product with it is a number, not even with an exact zero.
    """

    midpoint: Array  # any shape, float64
    radius: Array  # of the same shape, not negative

    def __post_init__(self) -> None:
        assert np.shape(self.midpoint) == np.shape(self.radius), "every midpoint has its own radius"

    @classmethod
    def exact(cls, numbers: Any) -> Ball:
        """Return balls of radius zero around float64 numbers."""
        midpoint = np.asarray(numbers, dtype=np.float64)
        return cls(midpoint, np.zeros_like(midpoint))

    @classmethod
    def around(cls, midpoint: Any, radius: Any) -> Ball:
        """Return balls with the given radii, a number or an array that broadcasts to the midpoints."""
        centre = np.asarray(midpoint, dtype=np.float64)
        return cls(centre, np.broadcast_to(np.asarray(radius, dtype=np.float64), centre.shape).copy())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.midpoint.shape

    @property
    def magnitude(self) -> Array:
        """An upper bound of the absolute values."""
        return round_up(np.abs(self.midpoint) + self.radius)

    @property
    def mignitude(self) -> Array:
        """A lower bound of the absolute values: positive only if zero is excluded."""
        size = np.abs(self.midpoint)
        return np.maximum(size - self.radius - 4 * UNIT_ROUNDOFF * (size + self.radius), 0.0)

    @property
    def lower(self) -> Array:
        """A number below all in the ball, or the least one."""
        bound = self.midpoint - self.radius
        return np.where(self.radius == 0, self.midpoint, np.nextafter(bound, -np.inf))

    @property
    def upper(self) -> Array:
        """A number above all in the ball, or the greatest one."""
        bound = self.midpoint + self.radius
        return np.where(self.radius == 0, self.midpoint, np.nextafter(bound, np.inf))

    @property
    def is_zero(self) -> NDArray[np.bool_]:
        """Where the number is exactly zero."""
        return (self.midpoint == 0) & (self.radius == 0)

    def contains(self, number: Any) -> bool:
        """Return whether the number, or every one of an array, lies in its ball."""
        return bool(((self.lower <= number) & (number <= self.upper)).all())

    def __getitem__(self, index: Any) -> Ball:
        return Ball(self.midpoint[index], self.radius[index])

    def reshape(self, *shape: int) -> Ball:
        """Return the same balls in another shape."""
        return Ball(self.midpoint.reshape(shape), self.radius.reshape(shape))

    def repeat(self, count: int, axis: int) -> Ball:
        """Return every ball ``count`` times along an axis, as `numpy.repeat`."""
        return Ball(self.midpoint.repeat(count, axis), self.radius.repeat(count, axis))

    def transpose(self) -> Ball:
        """Return the balls with the last two axes exchanged."""
        return Ball(self.midpoint.swapaxes(-1, -2), self.radius.swapaxes(-1, -2))

    def widened(self, radius: Any) -> Ball:
        """Return balls with so much added to the radii, rounded up."""
        return Ball(self.midpoint, round_up(self.radius + radius))

    def __neg__(self) -> Ball:
        return Ball(-self.midpoint, self.radius)

    def __add__(self, other: Ball | float) -> Ball:
        other = as_ball(other)
        midpoint = self.midpoint + other.midpoint
        rounded = (self.midpoint != 0) & (other.midpoint != 0)
        error = np.where(rounded, UNIT_ROUNDOFF * np.abs(midpoint) + UNDERFLOW, 0.0)
        return Ball(midpoint, round_up(self.radius + other.radius + error))

    def __sub__(self, other: Ball | float) -> Ball:
        return self + (-as_ball(other))

    def __mul__(self, other: Ball | float) -> Ball:
        other = as_ball(other)
        midpoint = self.midpoint * other.midpoint
        radius = (
            np.abs(self.midpoint) * other.radius
            + self.radius * (np.abs(other.midpoint) + other.radius)
            + UNIT_ROUNDOFF * np.abs(midpoint)
            + UNDERFLOW
        )
        return Ball(midpoint, np.where(self.is_zero | other.is_zero, 0.0, round_up(radius)))

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Ball | float) -> Ball:
        return self * as_ball(other).reciprocal()

    def reciprocal(self) -> Ball:
        """Return 1/x; NaN where zero is not excluded.

        |1/x − 1/m| ≤ r / (|m| (|m| − r)) for |x − m| ≤ r < |m|.
        """
        least, size = self.mignitude, np.abs(self.midpoint)
        defined = least > 0
        inverse = 1 / np.where(defined, self.midpoint, 1.0)
        # one after the other: their product overflows, or underflows, before the quotient does
        spread = self.radius / np.where(defined, least, 1.0) / np.where(defined, size, 1.0)
        radius = round_up(spread + UNIT_ROUNDOFF * np.abs(inverse) + UNDERFLOW)
        return only_where(defined, Ball(inverse, radius))

    def __matmul__(self, other: Ball) -> Ball:
        terms = self.shape[-1]
        gamma = (terms + 2) * UNIT_ROUNDOFF * (1 + 2.0**-20)
        size = np.abs(other.midpoint)
        radius = np.abs(self.midpoint) @ (other.radius + gamma * size)
        if self.radius.any():
            radius = radius + self.radius @ (size + other.radius)
        radius = round_up(radius + terms * UNDERFLOW, terms)
        met = (~self.is_zero).astype(np.float64) @ (~other.is_zero).astype(np.float64)
        return Ball(self.midpoint @ other.midpoint, np.where(met == 0, 0.0, radius))

    def sum(self, axis: int) -> Ball:
        """Return the sums along an axis."""
        terms = self.shape[axis]
        gamma = (terms + 2) * UNIT_ROUNDOFF * (1 + 2.0**-20)
        radius = (self.radius + gamma * np.abs(self.midpoint)).sum(axis)
        return Ball(self.midpoint.sum(axis), round_up(radius, terms))


def as_ball(number: Ball | float | Array) -> Ball:
    """Return a ball as it is, and anything else as an exact one."""
    return number if isinstance(number, Ball) else Ball.exact(number)


def only_where(defined: Any, found: Ball) -> Ball:
    """Return the balls where something is defined, and what stands for no number elsewhere."""
    return Ball(np.where(defined, found.midpoint, np.nan), np.where(defined, found.radius, np.inf))


def concatenate(balls: Sequence[Ball], axis: int) -> Ball:
    """Return the balls joined along an axis."""
    return Ball(
        np.concatenate([ball.midpoint for ball in balls], axis),
        np.concatenate([ball.radius for ball in balls], axis),
    )


def row_sum_norm(matrices: Ball) -> Array:
    """Return an upper bound of ‖M‖_∞ = max_i Σ_j |M_ij|, ``[...]`` for ``[..., n, n]``; 0 without entries."""
    sums = matrices.magnitude.sum(-1)
    return round_up(sums.max(-1, initial=0.0), matrices.shape[-1])


def spectral_norm(matrices: Ball, squarings: int = 4) -> Array:
    """Return an upper bound of ‖M‖₂ that is nearly sharp, ``[...]`` for ``[..., n, n]``.

    ‖M‖₂² = ‖S‖₂ with S = MᵀM, and ‖S‖₂ = ‖S^p‖₂^{1/p} ≤ ‖S^p‖_F^{1/p} for p a power of two: at most
    n^{1/(4p)} too large. S is scaled by a power of two at every squaring.
    """
    power, exponent = matrices.transpose() @ matrices, np.zeros(matrices.shape[:-2])
    for _ in range(squarings):
        _, shift = np.frexp(np.nan_to_num(power.magnitude.max((-1, -2)), posinf=0.0))
        scale = np.ldexp(1.0, -shift)[..., None, None]
        power = Ball(power.midpoint * scale, power.radius * scale + UNDERFLOW)
        power, exponent = power @ power, 2 * (exponent + shift)
    squares = np.square(power.magnitude).sum((-1, -2))
    norm = np.sqrt(round_up(squares, matrices.shape[-1] ** 2))  # ‖S^p‖_F, up to a power of two
    # The p-th root by correctly rounded square roots, and by exact powers of two.
    for _ in range(squarings):
        norm, exponent = np.sqrt(norm * np.ldexp(1.0, (exponent % 2).astype(int))), exponent // 2
    bound = np.ldexp(norm, exponent.astype(int))
    return round_up(np.sqrt(bound), 64)


def approximate_inverse(matrices: Array) -> Array:
    """Return inverses in floating point; zero, from which nothing follows, where there is none."""
    inverses = np.zeros_like(matrices)
    for position, matrix in enumerate(matrices):
        if np.isfinite(matrix).all():
            try:
                inverses[position] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
    return inverses
