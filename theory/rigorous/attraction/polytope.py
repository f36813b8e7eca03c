"""Sets of latents that hold every limit point: the ellipsoid K without the half-spaces that were cut off.

Latents are taken in units of the last norm's weights, y = z / w, so that K is the ball |y|² ≤ d. Let Φ̂ be the
self-map in these units and T(y) = (1 − τ) y + τ Φ̂(y) with 0 < τ ≤ 1 and T(K) ⊂ K. The limit points of an orbit of T
form a compact set ω with T(ω) = ω.

**Proposition (cuts).** *Let C ⊂ K hold the limit points ω of every orbit from K, and let a direction f and a number
b be such that at every y in C*

    f·Φ̂(y) ≤ b    or    f·Φ̂(y) < f·y .

*Then C ∩ {y : f·y ≤ b} holds them too.*

*Proof.* Let M be the largest f·y on ω, taken at T(y) with y in ω ⊂ C: M = (1 − τ) f·y + τ f·Φ̂(y), and f·y ≤ M.
In the first case M ≤ (1 − τ) M + τ b, so M ≤ b. In the second M < f·y ≤ M, which cannot be. ∎

Nothing is asked of the damping, nor of where the iterates are on their way. The first C is K. When the last C lies in
a convex region Z where all products of k members of an enclosure of ∂zT have ‖·‖ ≤ q < 1 (A3 of
`theory.rigorous.enclosure`), then diam ω = diam T^k(ω) ≤ q diam ω, hence ω is one point, a fixed point, and as Z holds
one only, **every orbit from K tends to it**. A fixed point in K is a limit point of its own orbit: there is no
other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import Array


@dataclass(frozen=True, eq=False)
class Polytope:
    """K ∩ {y : directions y ≤ bounds}.

    Attributes:
        directions: ``[m, d]``.
        bounds: ``[m]``.

    Example:
        >>> half = Polytope.whole(2).cut(np.array([[1.0, 0.0]]), np.array([0.5]))
        >>> half.holds(np.array([[0.4, 1.0], [0.6, 1.0], [0.0, 1.5]]))
        array([ True, False, False])
    """

    directions: Array
    bounds: Array

    @classmethod
    def whole(cls, size: int) -> "Polytope":
        """Return K itself, of dimension ``size``."""
        return cls(np.zeros((0, size)), np.zeros(0))

    def cut(self, directions: Array, bounds: Array, keep: int | None = None) -> "Polytope":
        """Return the set with half-spaces more; of all, only the last ``keep`` are kept, which only enlarges it."""
        found = np.concatenate([self.directions, directions]), np.concatenate([self.bounds, bounds])
        first = 0 if keep is None else max(0, len(found[1]) - keep)
        return Polytope(found[0][first:], found[1][first:])

    def holds(self, points: Array) -> NDArray[np.bool_]:
        """Return which points lie in it, in floating point: nothing is proved."""
        inside = np.square(points).sum(1) <= points.shape[1]
        return np.asarray(inside & (points @ self.directions.T <= self.bounds).all(1))
