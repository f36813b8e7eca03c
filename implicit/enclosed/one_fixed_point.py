"""That Φ has one fixed point among all latents of K, at every state of a box: cells of directions, halved.

Let y = z / w be the latent in units of the last norm's weights w, d its size, λ = (mean z² + ε)^½, û = z / λ
and s = z + u(û), with u what the block adds to its residual stream. z is a fixed point of Φ if

    N y = s,     N = (mean s² + ε)^½.

So |û| = √d κ with κ² = 1 − ε/λ², and |y| = √d ρ with ρ² = mean s² / (mean s² + ε): but for ε both û and y are
known from the *direction* v of z alone, scaled so that its largest entry v_i is σ = ±1, and with t = w s, a
positive multiple of v, what is asked is

    (a)   σ tⱼ = t_i vⱼ  for every j ≠ i,   σ t_i > 0,     û = √d κ v / |v|,   z = √d ρ v / |v / w| ,

d − 1 equations in d − 1 unknowns. **Cells** are boxes of v in the 2 d faces of the cube. On each (a) is
bounded by affine forms c + A ξ ± e in its coordinates |ξ| ≤ 1, and there is no solution where one of the
equations has no zero. Near the fixed points there is none either where one sum of them has no zero, or where
the solution of the linear part, with any matrix B

    ξ = −B c − (B A − I) ξ − B e ,

lies outside of |ξ| ≤ 1; else the cell is tightened to it. What is left is halved. κ in [1 − η, 1] is a
coordinate of its own. ρ is at least (m / (m + ε))^½ where mean s² ≥ m on the cell, for every ρ in [0, 1].

*Where κ < 1 − η* λ is at most (ε / (2 η − η²))^½, so that z is nearly 0 and N² = ε / (1 − ρ²) small: with s =
N z / w, u is small and nearly −z. The same cells, now of κ in [0, 1 − η] and halved in κ too, show that it is
not (`implicit.enclosed.numba_cells.equations.towards_zero`).

*Around the fixed points* of the box a cell C is left out. Its latents lie in a box Z in which
‖I − P (I − ∂Φ)‖ < 1 with a matrix P, at all states, so that Φ has at most one fixed point there at each: two,
z and z', would give z − z' = (I − P (I − M)) (z − z') with a mean M of ∂Φ on Z (the entries' mean value
theorem, row by row). As K is convex and compact and Φ maps it into itself, there is at least one (Brouwer).

No latent is sampled for the proof. That a fixed point is the only one does not say that it attracts: of
convergence this says nothing (docs/when_modes_agree.md, Theorems 1 and 2).

Source: Moore, Kearfott and Cloud 2009, *Introduction to Interval Analysis*, chapter 8 (interval Newton
methods with bisection); affine forms: de Figueiredo and Stolfi 2004, Numerical Algorithms 37.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from implicit.enclosed.affine import SLACK
from implicit.enclosed.affine_derivative import derivative
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.latent_cells import LatentCells
from implicit.models.interface import SequenceModel
from implicit.ops.needs import NUMBA
from theory.rigorous.balls import Ball, functions
from theory.rigorous.balls.ball import Array, row_sum_norm

SHORT = 2e-3
"""η: κ below 1 − η belongs to latents near 0."""
OUTER = 0.1
"""Half-width of C, which is left out at first, in units of a largest entry of 1."""
INNER = (0.05, 0.03, 0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.002, 0.001)
"""Of the cell within it that is left out for a part of the states, the largest first."""
NEAR_LIMIT = 20_000
"""Cells of C to examine at most, before the states are parted."""


@dataclass(frozen=True)
class OneFixedPoint:
    """What is proved at one token and the states of several boxes.

    Attributes:
        proved: whether Φ has exactly one fixed point in K at each of them.
        cells: how many cells were examined.
        parts: into how many parts the boxes fell for what is near the fixed points.

    Example:
        >>> OneFixedPoint(proved=True, cells=3, parts=1).proved
        True
    """

    proved: bool
    cells: int
    parts: int


def prove_one_fixed_point(
    model: SequenceModel, token: int, states: Ball, latents: Array, limit: int = 10**9
) -> OneFixedPoint:
    """Try to prove that Φ has exactly one fixed point in K, at one token and all states of some boxes.

    Far from the fixed points it is proved for all boxes at once, which should be near each other; near them
    for parts of the boxes, which are halved where it does not succeed.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        states: the boxes, as `flatten_state` orders states, ``[S, n]``.
        latents: z near the fixed points of each, ``[S, d]``; what is proved does not depend on them.
        limit: cells to examine at most.

    Raises:
        InputError: for another model, another number of latents than boxes, or latents that are zero or far
            from each other.

    Example:
        >>> import torch
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> sizes = {"d_model": 2, "head_size": 2, "d_state": 1, "d_conv": 1, "expand": 1}
        >>> model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)).double()
        >>> _ = model.cells[0].in_proj.weight.data.mul_(0.2)
        >>> _ = model.cells[0].out_proj.weight.data.mul_(3.0)
        >>> state, transition = model.init_state(1), model.transition(1)
        >>> latent, zero = torch.ones(2).double(), {name: part[0] for name, part in state.items()}
        >>> for _ in range(200):
        ...     latent = 0.2 * latent + 0.8 * transition.self_map(latent, zero).detach()
        >>> prove_one_fixed_point(model, 1, Ball.exact(np.zeros((1, 2))), latent[None].numpy()).proved
        True
    """
    if len(latents) != len(states.midpoint):
        raise InputError(f"{len(latents)} latents for {len(states.midpoint)} boxes; give one for each")
    middle = (latents.min(0) + latents.max(0)) / 2
    axis = int(np.abs(middle).argmax())
    if (latents[:, axis] * middle[axis] <= 0).any():
        raise InputError(
            "latents are zero or far from each other; give those of fixed points near each other"
        )
    centre = middle / abs(middle[axis])
    examined, proved = DirectionCells(model, token, _hull(states)).outside(centre, axis, OUTER, limit)
    waiting, parts = [np.arange(len(latents))] if proved else [], 0
    while waiting:
        members = waiting.pop()
        cells, near = DirectionCells(model, token, _hull(states[members])), latents[members]
        own = (near.min(0) + near.max(0)) / 2
        own = own / abs(own[axis])
        inner = next((width for width in INNER if cells.at_most_one(own, axis, width)), 0.0)
        count, through = cells.around(centre, own, axis, (OUTER, inner), min(NEAR_LIMIT, limit - examined))
        examined += count
        if through and inner > 0:
            parts += 1
        elif len(members) == 1 or examined >= limit:
            return OneFixedPoint(False, examined, parts)
        else:
            waiting += _halves(members, states.midpoint)
    return OneFixedPoint(proved, examined, parts)


def _kernels() -> Any:
    """The compiled search; numba is imported by nobody else."""
    missing = NUMBA(None)
    if missing is not None:
        raise InputError(missing)
    from implicit.enclosed.numba_cells import search

    return search


def _hull(boxes: Ball) -> Ball:
    """One box that holds several."""
    low, high = boxes.lower.min(0), boxes.upper.max(0)
    middle = (low + high) / 2
    return Ball(middle, np.maximum(high - middle, middle - low) * (1 + SLACK) + 1e-300)


def _halves(members: NDArray[np.int64], centres: Array) -> list[NDArray[np.int64]]:
    """Two halves of some boxes, along the coordinate in which their centres differ most."""
    own = centres[members]
    order = members[own[:, np.ptp(own, axis=0).argmax()].argsort(kind="stable")]
    return [order[: len(order) // 2], order[len(order) // 2 :]]


class DirectionCells(LatentCells):
    """Φ of one token at all states of a box, on cells of directions of latents.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        states: the box, as `flatten_state` orders states, ``[n]``.

    Raises:
        InputError: for another model.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> cells = DirectionCells(load_run("parity-small").model, 0, Ball.exact(np.zeros(18)))
        >>> cells.outside(np.eye(8)[0], 0, 0.1, limit=1000)  # far too few
        (1000, False)
    """

    def __init__(self, model: SequenceModel, token: int, states: Ball) -> None:
        size = EnclosedClosedLoop(model).latent_size
        super().__init__(model, token, states, np.zeros(size), np.eye(size), 0.0)
        self.kernels = kernels = _kernels()
        largest, least = np.abs(self.weight).max(), np.abs(self.weight).min()
        parts = self._gate, self._x, self._both, self._step
        read, offset, radius = (np.concatenate([part[k] for part in parts]) for k in range(3))
        self.tables = kernels.Block(
            read,
            offset,
            radius,
            self._out,
            self.h.midpoint,
            self.h.radius,
            self.weight,
            1 / np.abs(self.weight),
            np.ones(size),
            float(self._rate.midpoint),
            float(self._rate.radius),
            float(self._skip.midpoint),
            float(self._skip.radius),
            self.epsilon,
            (1 - SLACK) / largest,
            least * (1 - SLACK),
        )
        self.room = kernels.room_for(size, self.cell.d_inner)
        self.waiting = np.zeros((kernels.ROOM, 2, size + 1))

    def examine(self, middle: Array, half: Array, axis: int) -> bool:
        """Whether one cell near the sphere is excluded; what is found of it stays in lane 0 of the room.

        Args:
            middle: of v and, behind it, of κ, ``[d + 1]``.
            half: its half-widths, 0 along the axis.
            axis: along which v is 1 or -1.
        """
        self.room.middle[:], self.room.half[:] = middle[:, None], half[:, None]
        sign = float(np.sign(middle[axis]))
        self.kernels.examine(self.tables, axis, sign, self.kernels.NEAR, self.room)
        return bool(self.room.excluded[0])

    def outside(self, centre: Array, axis: int, width: float, limit: int) -> tuple[int, bool]:
        """Whether no fixed point has a direction outside of a cell, and how many cells were examined."""
        examined = 0
        none = np.ones(self.size), -np.ones(self.size)
        for face, side in product(range(self.size), (1.0, -1.0)):
            low, high = np.full(self.size, -1.0), np.full(self.size, 1.0)
            low[face] = high[face] = side
            own = (face, side) == (axis, centre[axis])
            left_out = (centre - width, centre + width) if own else none
            for task, ends in ((self.kernels.TOWARDS_ZERO, none), (self.kernels.FAR, left_out)):
                count, through = self._examine(task, face, low, high, ends, limit - examined)
                examined += count
                if not through:
                    return examined, False
        return examined, True

    def around(
        self, centre: Array, inner: Array, axis: int, widths: tuple[float, float], limit: int
    ) -> tuple[int, bool]:
        """Whether none has one in a cell and outside of another, smaller one, and how many were examined."""
        low, high = (np.clip(centre + sign * widths[0], -1.0, 1.0) for sign in (-1, 1))
        low[axis] = high[axis] = centre[axis]
        left_out = inner - widths[1], inner + widths[1]
        return self._examine(self.kernels.NEAR, axis, low, high, left_out, limit)

    def _examine(
        self, task: int, axis: int, low: Array, high: Array, left_out: tuple[Array, Array], limit: int
    ) -> tuple[int, bool]:
        kappa = (0.0, 1 - SHORT) if task == self.kernels.TOWARDS_ZERO else (1 - SHORT, 1.0)
        ends = np.append(low, kappa[0]), np.append(high, kappa[1])
        count, through = self.kernels.search(
            self.tables, task, axis, *ends, *left_out, limit, self.room, self.waiting
        )
        return int(count), bool(through)

    @np.errstate(all="ignore")
    def at_most_one(self, centre: Array, axis: int, width: float) -> bool:
        """Whether Φ has at most one fixed point with a direction so near to that of a latent."""
        d = self.size
        half = np.append(np.full(d, width), SHORT / 2)
        half[axis] = 0.0
        middle = np.append(centre, 1 - SHORT / 2)
        self.examine(middle, half * (1 + SLACK), axis)
        lost = float(self.room.lost[0])
        direction = Ball(centre[None], half[None, :d] * (1 + SLACK))
        in_units = direction / self.last_norm[0]
        inverse = functions.rsqrt((in_units * in_units).sum(1))
        least, root = 1 - lost, np.sqrt(float(d))
        length = Ball.exact(root * (1 + least) / 2).widened(root * lost / 2 * (1 + SLACK) + SLACK * root)
        region = (direction * inverse.reshape(1, 1) * length)[0]
        slope = Ball.exact(np.eye(d)) - derivative(self, region.midpoint, region.radius * (1 + SLACK))
        if not np.isfinite(slope.midpoint).all() or np.linalg.matrix_rank(slope.midpoint) < d:
            return False
        inverted = Ball.exact(np.linalg.inv(slope.midpoint))
        return bool(row_sum_norm(Ball.exact(np.eye(d)) - inverted @ slope) < 1)
