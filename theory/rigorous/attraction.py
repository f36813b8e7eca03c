"""Attraction of every latent of the invariant set K: the hypothesis of Theorem 2 of docs/when_modes_agree.md.

At one state and token let T(y) = (1 − τ) y + τ Φ(y) with 0 < τ ≤ 1, K compact, and T(K) ⊂ K. Let |·| be a
norm, c a point, ρ_0 > … > ρ_n numbers.

**Proposition (a distance that falls).** *Let*

    (i)    |Φ(y) − c| < |y − c|         at every y in K with |y − c| > ρ_0,
    (ii)   |T(y) − c| ≤ ρ_{k+1}         at every y with |y − c| ≤ ρ_k, for k < n,
    (iii)  ‖∂T‖ ≤ q < 1                 at every y with |y − c| ≤ ρ_n,
    (iv)   |T(y) − c| ≤ ρ_0             at every y with |y − c| ≤ ρ_0, if n = 0.

*Then T has one fixed point in K, and the iteration of T tends to it from every y in K.*

*Proof.* The limit points of an orbit in K are a compact set ω with T(ω) = ω. Let M be the largest |y − c| on
ω, taken at T(y) with y in ω. If |y − c| > ρ_0, then by (i) M ≤ (1 − τ) |y − c| + τ |Φ(y) − c| < |y − c| ≤ M,
which cannot be. So |y − c| ≤ ρ_0 and M ≤ ρ_1, hence by (ii), again as T(ω) = ω, M ≤ ρ_2, …, M ≤ ρ_n; if n =
0, M ≤ ρ_0 by (iv). There T contracts, and diam ω = diam T(ω) ≤ q diam ω: ω is one point, to which the orbit
tends, and a fixed point. Two fixed points in K would each be its own ω, so both within ρ_n, at a distance
that T shrinks and leaves as it is. ∎

**Proposition (into a region).** *Let T be continuously differentiable, D compact and convex, T(D) ⊂ D and
‖∂T‖ ≤ q < 1 on D in some norm; and let |Φ(y) − c| < |y − c|, in any norm and with any c, at every y in K
outside of D. Then the same follows.*

*Proof.* T has exactly one fixed point z* in D, which attracts all of D (Banach). Let M be the largest |y − c|
on ω, taken at T(y) with y in ω. If y were not in D, M < |y − c| ≤ M as above. So y is in D, and T^k(y), all
in ω, tend to z*, which is in ω as that is closed. At z* ‖∂T‖ ≤ q, so T contracts on a ball around it too, and
an orbit that comes into that ball tends to z*: ω = {z*}. Another fixed point in K would be its own ω. ∎

D is what `theory.rigorous.covers.orbits` proves of a bundle: one region for all states of a box. All
hypotheses are asked at every state of the box, and so is what follows of each.

(i) speaks of Φ alone and is proved by bisection: cells that cover K are halved until it holds on each, or
until the cell lies within ρ_0. How a cell is bounded is for the package of the model to say. Where another
attractor is in K, (i) to (iv) are not all true, and the search ends without a proof. As c any point serves;
one near the fixed point does.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import Array

BATCH = 1024
"""Cells that are bounded at once, so few that the arrays stay in the processor's cache."""


class FallingDistance(Protocol):
    """Cells of latents, on which (i) can be shown.

    Example:
        That of a small Mamba-2 model is `implicit.enclosed.latent_cells.LatentCells`.
    """

    def cover(self) -> tuple[Array, Array]:
        """Return lower and upper ends of cells, ``[N, n]`` each, that together hold all of K."""
        ...

    def tighten(self, lower: Array, upper: Array) -> tuple[NDArray[np.bool_], Array, Array]:
        """Return which cells may hold a latent of K, and cells that hold the same of them, not larger."""
        ...

    def falls(self, lower: Array, upper: Array) -> tuple[NDArray[np.bool_], Array]:
        """Return where (i) is proved, or the cell lies within ρ_0, and what each axis adds.

        The shapes are ``[N]`` and ``[N, n]``.
        """
        ...


@dataclass(frozen=True)
class Examined:
    """What came of an attempt.

    Attributes:
        proved: whether (i) holds at every latent of K.
        cells: how many cells were examined.
        left: how many were waiting when it was given up.

    Example:
        >>> Examined(proved=True, cells=3, left=0).proved
        True
    """

    proved: bool
    cells: int
    left: int


def prove_falling(cells: FallingDistance, limit: int) -> Examined:
    """Prove (i) of the proposition on all of K.

    Args:
        cells: the self-map with c, the norm and ρ_0.
        limit: cells to examine at most.

    Example:
        tanh(a z) on [−1, 1] with c = 0 and ρ_0 = 1/10: its distance to 0 falls for a = 1, and not for
        a = 2, where two fixed points attract; on a cell [l, u] with 0 < l it is at most tanh(a u).

        >>> class Tanh:
        ...     def __init__(self, slope):
        ...         self.slope = slope
        ...
        ...     def cover(self):
        ...         return np.array([[0.0]]), np.array([[1.0]])  # tanh is odd: one half is enough
        ...
        ...     def tighten(self, lower, upper):
        ...         return np.full(len(lower), True), lower, upper
        ...
        ...     def falls(self, lower, upper):
        ...         below = np.tanh(self.slope * upper) * (1 + 1e-12) < lower
        ...         return (below | (upper <= 0.1))[:, 0], upper - lower
        >>> prove_falling(Tanh(1.0), limit=100_000).proved, prove_falling(Tanh(2.0), limit=100_000).proved
        (True, False)
    """
    waiting = [cells.cover()]
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
        alive, lower, upper = cells.tighten(lower, upper)
        lower, upper = lower[alive], upper[alive]
        if len(lower):
            proved, contributions = cells.falls(lower, upper)
            if not proved.all():
                waiting.append(_halves(lower[~proved], upper[~proved], contributions[~proved]))
        if examined >= limit and waiting:
            return Examined(proved=False, cells=examined, left=sum(len(part) for part, _ in waiting))
    return Examined(proved=True, cells=examined, left=0)


def _halves(lower: Array, upper: Array, contributions: Array) -> tuple[Array, Array]:
    """Both halves of every cell, along the axis that contributes most."""
    rows = np.arange(len(lower))
    known = np.where(upper > lower, np.nan_to_num(contributions, nan=0.0, posinf=1e300), -1.0)
    axis = known.argmax(1)
    middle = 0.5 * (lower[rows, axis] + upper[rows, axis])
    first, second = upper.copy(), lower.copy()
    first[rows, axis] = second[rows, axis] = middle
    return np.concatenate([lower, second]), np.concatenate([first, upper])
