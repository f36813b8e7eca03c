"""Bounds of the self-map of a small Mamba-2 model over large sets of latents, for states in a box.

Let y = z / w be the latent in units of the last norm's weights w, d its size, λ(z) = (mean z² + ε)^½ and û = z / λ, so
that |û|² = d (1 − ε/λ²). With one head of state size 1, all that Φ reads of z is û, but for the residual stream:

    v = (x + (α/β) h) ⊙ silu(gate),  x = silu(taps · projected),  α = a C,  β = Δ B C + D
    s = ν z + W v,                   ν = (mean v² + ε/β²)^½,      W = out_proj diag(norm)
    Φ̂ = Φ / w = s / N(s),            N(s) = (mean s² + ε ν²)^½

(with β > 0, which is checked of every cell; where it is not proved nothing is). f·Φ̂ ≤ b is f·s − b N(s) ≤ 0, and N is
bounded from below by its tangent (Cauchy and Schwarz), from above by (N² + t²) / 2t: no quotient is enclosed. All
quantities are affine forms, c + Σ aₖ ξₖ ± e with |ξₖ| ≤ 1, whose errors e take what is not affine (product of two
remainders, second derivatives of silu) and the rounding.

There are two kinds of cells, boxes in the coordinates of an orthogonal frame R: of (û, λ), û = R q, from which z = λ û,
good near z = 0 where û turns fast; and of y = R q, good for small sets. For fixed û the bound is affine or convex in
λ, so that the two ends of λ are all that is looked at; that |û|² is d (1 − ε/λ²) is used by a multiple of
2 c·(û − c), chosen in floating point, of which any would do.

**Rounding.** Every sum here has fewer than 2⁶ terms, and each term fewer than 2⁵ roundings, so that a computed number
is off by less than 2⁻⁴² of the sum of the absolute values of its terms; `SLACK` times an upper bound of that sum is
added to the error of every affine form and every comparison.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.models.interface import SequenceModel
from theory.rigorous.attraction import Polytope
from theory.rigorous.balls import Ball, exp, functions
from theory.rigorous.balls.ball import Array

SLACK = 2.0**-38
MARGIN = 1e-9
"""By how much ends of cells are moved outwards when a cell is tightened: far more than rounding."""
SILU_BEND = (-0.1, 0.5)
"""silu'' lies between them (`tests/implicit/test_latent_cells.py` proves it in FLINT, and the next)."""
SILU_TURN = 0.35
"""More than |silu'''|."""
LEAST_SILU = -0.2785
LEAST_AT = -1.27
"""silu rises from here on; it is nowhere below `LEAST_SILU`."""


@dataclass(frozen=True, eq=False)
class Affine:
    """c + Σ aₖ ξₖ ± e for all |ξₖ| ≤ 1: ``[N, n]``, ``[N, n, k]``, ``[N, n]``."""

    c: Array
    a: Array
    e: Array

    @property
    def reach(self) -> Array:
        """How far from c it comes, an upper bound."""
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
    )


class LatentCells(EnclosedClosedLoop):
    """Φ̂ of one token at all states of a box, on cells of latents: a `theory.rigorous.attraction.CellMap`.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        state: the box of states, window and h as `flatten_state` orders them, ``[n]``.
        frame: R, orthogonal, ``[d, d]``; the identity if None.
        by_direction: whether cells are of (û, λ), or of y.

    Raises:
        InputError: for another model.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> cells = LatentCells(load_run("parity-small").model, 0, Ball.exact(np.zeros(18)))
        >>> lower, upper = cells.cover(Polytope.whole(8))
        >>> lower.shape
        (1, 9)
    """

    def __init__(
        self,
        model: SequenceModel,
        token: int,
        state: Ball,
        frame: Array | None = None,
        *,
        by_direction: bool = True,
    ) -> None:
        super().__init__(model)
        cell, d = self.cell, self.latent_size
        if cell.heads != 1 or cell.d_state != 1 or not self.residual or not self._alike():
            raise InputError(
                f"the model has {cell.heads} heads and d_state {cell.d_state}; give one with a single head, "
                "d_state 1 and a residual stream, and norms of one epsilon"
            )
        self.size, self.epsilon, self.by_direction = d, cell.epsilon, by_direction
        self.frame = np.eye(d) if frame is None else frame
        self.weight: Array = self._last_norm[0].midpoint
        inner, channels = cell.d_inner, cell.channels
        injected = self._injection[token]
        window, self.h = state[: self.window_size], state[self.window_size :]
        taps = cell.earlier_taps.shape[1]
        before = cell.conv_bias
        if taps:
            before = before + (window.reshape(channels, taps) * cell.earlier_taps).sum(-1)
        matrix = cell.in_proj * self._norm[0]
        convolved = slice(inner, inner + channels)
        drive = matrix[convolved] * cell.last_tap[:, None]
        offset = injected[convolved] * cell.last_tap + before
        step = injected[inner + channels :] + cell.dt_bias
        # gate, x, then B and C, then Δ: matrix, offset and its radius
        self._gate = _exactly(matrix[:inner], injected[:inner])
        self._x = _exactly(drive[:inner], offset[:inner])
        self._shared = _exactly(drive[inner:], offset[inner:])
        self._step = _exactly(matrix[inner + channels :], step)
        self._out = (cell.out_proj * cell.norm_weight).midpoint
        self._rate, self._skip = cell.rate[0], cell.skip[0]

    def _alike(self) -> bool:
        weights, epsilon = self._last_norm
        same = epsilon == self.cell.epsilon == self._norm[1] > 0
        return same and bool((weights.midpoint != 0).all())

    def cover(self, inside: Polytope) -> tuple[Array, Array]:
        """Return one cell with all latents of K, or of the set if it is thinner in an axis of the frame."""
        d = self.size
        side = np.full((1, d), np.sqrt(d) + MARGIN)
        if not self.by_direction:
            return -side, side
        largest = np.sqrt(np.square(self.weight).max() + self.epsilon) + MARGIN  # mean z² ≤ max w² mean y²
        lower, upper = np.sqrt(self.epsilon) * (1 - MARGIN), largest
        return np.column_stack([-side, [lower]]), np.column_stack([side, [upper]])

    @np.errstate(all="ignore")  # of cells without a point
    def tighten(self, lower: Array, upper: Array, inside: Polytope) -> tuple[NDArray[np.bool_], Array, Array]:
        """See `theory.rigorous.attraction.CellMap`."""
        if self.by_direction:
            return self._tighten_directions(lower, upper, inside)
        lower, upper = _within_ball(lower, upper, self.size + MARGIN)
        planes = inside.directions @ self.frame
        ones = np.ones(len(lower))
        lower, upper = _within_planes(lower, upper, planes, np.outer(ones, inside.bounds))
        alive = (lower <= upper).all(1)
        return alive, lower, np.maximum(lower, upper)

    def _tighten_directions(
        self, lower: Array, upper: Array, inside: Polytope
    ) -> tuple[NDArray[np.bool_], Array, Array]:
        d, alive = self.size, np.full(len(lower), True)
        lo, hi, least, most = lower[:, :d], upper[:, :d], lower[:, d], upper[:, d]
        planes = (inside.directions / self.weight) @ self.frame
        for _ in range(2):
            near, far = _squares(lo, hi)
            alive &= near.sum(1) <= d + MARGIN
            gap = d - far.sum(1)  # of |û|² to d: ε d / λ² is not less
            with np.errstate(divide="ignore", invalid="ignore"):
                top = np.sqrt(d * self.epsilon / np.maximum(gap - MARGIN, 0)) * (1 + MARGIN)
            most = np.minimum(most, np.where(gap > MARGIN, top, np.inf))
            bottom = np.sqrt(d * self.epsilon / (np.maximum(d - near.sum(1), 0) + MARGIN)) * (1 - MARGIN)
            least = np.maximum(least, bottom)
            alive &= least <= most
            lo, hi = _within_ball(lo, hi, d + MARGIN)
            shell = d * (1 - self.epsilon / np.square(least)) - MARGIN
            lo, hi = _outside_ball(lo, hi, shell)
            alive &= (lo <= hi).all(1)
            hi = np.maximum(lo, hi)
            c, w = (lo + hi) / 2, (hi - lo) / 2 + MARGIN
            # K: λ |û / w| ≤ √d, the norm bounded from below along its value at the centre
            y = (c @ self.frame.T) / self.weight
            length = np.sqrt(np.square(y).sum(1)) + MARGIN
            turned = (y / (length[:, None] * self.weight)) @ self.frame
            low = (y * y).sum(1) / length - (np.abs(turned) * w).sum(1) - MARGIN
            most = np.where(low > MARGIN, np.minimum(most, (np.sqrt(d) + MARGIN) / np.maximum(low, MARGIN)), most)
            if len(inside.bounds):
                low_planes = c @ planes.T - w @ np.abs(planes).T - MARGIN
                bounds = inside.bounds[None] + MARGIN
                with np.errstate(divide="ignore", invalid="ignore"):
                    quotient = bounds / low_planes
                most = np.minimum(most, np.where(low_planes > 0, quotient + MARGIN, np.inf).min(1))
                below = (bounds < 0) & (low_planes < 0)
                least = np.maximum(least, np.where(below, quotient - MARGIN, 0.0).max(1))
                alive &= ~((bounds < 0) & (low_planes >= 0)).any(1) & (least <= most)
                end = np.where(bounds >= 0, least[:, None], np.maximum(least, most)[:, None])
                lo, hi = _within_planes(lo, hi, planes, bounds / end + MARGIN)
                alive &= (lo <= hi).all(1)
                hi = np.maximum(lo, hi)
        alive &= least <= most
        lower = np.column_stack([lo, least])
        return alive, lower, np.column_stack([hi, np.maximum(least, most)])

    @np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
    def excess(self, lower: Array, upper: Array, cuts: Polytope) -> tuple[Array, Array]:
        """See `theory.rigorous.attraction.CellMap`."""
        d, weight = self.size, self.weight
        lo, hi = lower[:, :d], upper[:, :d]
        c = (lo + hi) / 2
        half = np.maximum(hi - c, c - lo) * (1 + SLACK) + 1e-15
        frame = self.frame if self.by_direction else weight[:, None] * self.frame
        base = Affine(c @ frame.T, frame[None] * half[:, None, :], np.zeros_like(c))  # û or z
        base = Affine(base.c, base.a, SLACK * (np.abs(c) + half) @ np.abs(frame).T)
        inverse = None if self.by_direction else self._inverse_length(base)
        gate, x = silu(self._read(self._gate, base, inverse)), silu(self._read(self._x, base, inverse))
        ratio, beta = self._ratio(base, inverse)
        v = self._values(x, gate, ratio)
        nu = self._length(v, beta)
        ends = (lower[:, d], upper[:, d]) if self.by_direction else (np.ones(len(c)),)
        return self._compare(cuts, base, half, c, v, nu, ends, beta.mignitude <= 0.05, x, gate)

    def _read(self, part: tuple[Array, Array, Array], base: Affine, inverse: Affine | None) -> Affine:
        """Matrix û + offset, û being the base, or the base times 1/λ."""
        matrix, offset, radius = part
        size = (np.abs(base.c) + base.reach) @ np.abs(matrix).T
        c, a = base.c @ matrix.T, np.matmul(matrix, base.a)
        e = base.e @ np.abs(matrix).T + SLACK * size
        if inverse is None:
            return Affine(c + offset, a, e + radius + SLACK * np.abs(offset))
        found = _times(Affine(c, a, e), inverse)
        return Affine(found.c + offset, found.a, found.e + radius + SLACK * (np.abs(offset) + np.abs(found.c)))

    def _inverse_length(self, z: Affine) -> Affine:
        """1/λ, ``[N, 1]``."""
        d, reach = self.size, z.reach
        t = np.sqrt(np.square(z.c).mean(1) + self.epsilon)
        along = z.c / (d * t)[:, None]
        bend = np.square(reach).sum(1) / (2 * d * t) * (1 + SLACK)
        a = np.matmul(along[:, None], z.a)[:, 0]
        e = bend / 2 + (np.abs(along) * z.e).sum(1) + SLACK * (t + (np.abs(along) * reach).sum(1))
        middle = t + bend / 2
        spread = (np.abs(a).sum(1) + e) * (1 + SLACK) + bend / 2
        low = np.maximum(t - spread, np.sqrt(self.epsilon) * (1 - SLACK))
        # 1/λ = 1/m − (λ − m)/m² + (λ − m)²/(m² λ)
        rest = np.square(spread) / (np.square(middle) * low) * (1 + SLACK)
        slope = 1 / np.square(middle)
        error = e * slope + rest / 2 + SLACK * (1 / middle + spread * slope + rest)
        return Affine((1 / middle + rest / 2)[:, None], -(a * slope[:, None])[:, None], error[:, None])

    def _ratio(self, base: Affine, inverse: Affine | None) -> tuple[Ball, Ball]:
        """α/β and β, intervals, ``[N]``."""
        shared, step = self._read(self._shared, base, inverse), self._read(self._step, base, inverse)
        low, high = _silu_range(shared)
        r = step.reach
        ends = [functions.softplus(Ball.exact((step.c + sign * r)[:, 0])) for sign in (-1, 1)]
        delta = _hull(ends[0].lower, ends[1].upper)
        decay = _hull(
            exp(Ball.exact(delta.upper) * self._rate).lower, exp(Ball.exact(delta.lower) * self._rate).upper
        )
        b, c = _hull(low[:, 0], high[:, 0]), _hull(low[:, 1], high[:, 1])
        beta = delta * (b * c) + self._skip
        return (decay * c) / beta, beta

    def _values(self, x: Affine, gate: Affine, ratio: Ball) -> Affine:
        """v = (x + ratio h) gate."""
        h, h_radius = self.h.midpoint, self.h.radius
        middle = x.c + ratio.midpoint[:, None] * h
        spread = ratio.radius[:, None] * (np.abs(h) + h_radius) + np.abs(ratio.midpoint)[:, None] * h_radius
        size = np.abs(x.c) + np.abs(ratio.midpoint[:, None] * h) + spread
        return _times(Affine(middle, x.a, x.e + spread + SLACK * size), gate)

    def _length(self, v: Affine, beta: Ball) -> Affine:
        """ν, ``[N]`` without an axis of entries: between its tangent and the parabola above it."""
        d, reach = v.c.shape[1], v.reach
        with np.errstate(divide="ignore"):
            near = np.sqrt(self.epsilon) / beta.magnitude * (1 - SLACK)
            far = np.sqrt(self.epsilon) / beta.mignitude * (1 + SLACK)
        t = np.sqrt(np.square(v.c).mean(1) + near * near)
        along = v.c / (d * t)[:, None]
        bend = (np.square(reach).sum(1) / d + far * far - near * near) / (2 * t) * (1 + SLACK)
        a = np.matmul(along[:, None], v.a)[:, 0]
        sizes = t + bend + (np.abs(along) * (np.abs(v.c) + reach)).sum(1)
        return Affine(t + bend / 2, a, bend / 2 + (np.abs(along) * v.e).sum(1) + SLACK * sizes)

    def _compare(
        self,
        cuts: Polytope,
        base: Affine,
        half: Array,
        c: Array,
        v: Affine,
        nu: Affine,
        ends: tuple[Array, ...],
        unknown: NDArray[np.bool_],
        x: Affine,
        gate: Affine,
    ) -> tuple[Array, Array]:
        d, out = self.size, self._out
        directions = cuts.directions
        # the bound of each cell: where f·y is larger all over the cell, it may come near that
        to_y = directions / self.weight
        own = base.c @ to_y.T - np.matmul(np.abs(np.matmul(to_y, base.a)), np.ones(base.a.shape[-1]))
        own = own - (base.e @ np.abs(to_y).T)
        own = np.minimum(ends[0][:, None] * own, ends[-1][:, None] * own) - 1e-7
        bound = np.maximum(cuts.bounds, own)
        above, below = np.maximum(bound, 0), np.minimum(bound, 0)
        middle = (ends[0] + ends[-1]) / 2
        through = v.c @ out.T
        centre = (nu.c * middle)[:, None] * base.c + through
        norm = np.sqrt(np.square(centre).mean(1)) + 1e-300
        along = centre / (d * norm)[:, None] * (1 - SLACK)  # |along| √d ≤ 1, for the tangent below N
        on_v = directions @ out
        dual_v = on_v[None] - above[..., None] * (along @ out)[:, None]
        dual_b = directions[None] - above[..., None] * along[:, None]
        size_v = np.abs(directions) @ np.abs(out) + above[..., None] * (np.abs(along) @ np.abs(out))[:, None]
        size_b = np.abs(directions)[None] + above[..., None] * np.abs(along)[:, None]
        at = np.matmul(dual_b, base.c[..., None])[..., 0]
        moved = np.matmul(dual_b, base.a)
        reach = np.abs(moved).sum(-1) + np.matmul(np.abs(dual_b), base.e[..., None])[..., 0]
        nu_reach = nu.reach
        v_linear, v_at = np.matmul(dual_v, v.a), np.matmul(dual_v, v.c[..., None])[..., 0]
        v_error = np.matmul(np.abs(dual_v), v.e[..., None])[..., 0]
        b_linear = moved * nu.c[:, None, None] + at[..., None] * nu.a[:, None]
        b_at = at * nu.c[:, None]
        b_error = np.abs(at) * nu.e[:, None] + reach * nu_reach[:, None]
        b_error = b_error + nu.c[:, None] * np.matmul(np.abs(dual_b), base.e[..., None])[..., 0]
        v_size = np.matmul(size_v, (np.abs(v.c) + v.reach)[..., None])[..., 0]
        b_size = np.matmul(size_b, (np.abs(base.c) + base.reach)[..., None])[..., 0] * (nu.c + nu_reach)[:, None]
        sphere = self._sphere(c, half, ends[0]) if self.by_direction else None
        worst: Array = np.full(bound.shape, -np.inf)
        for scale in dict.fromkeys((0, len(ends) - 1)):
            lam = ends[scale][:, None]
            linear = v_linear + b_linear * lam[..., None]
            error = v_error + b_error * lam + SLACK * (v_size + b_size * lam)
            if (below < 0).any():
                extra, slope = self._norm_above(base, v, nu, nu_reach, through, ends[scale])
                error = error - below * extra[:, None]
                linear = linear - below[..., None] * slope[:, None]
            total = v_at + b_at * lam + error + _largest(linear, sphere)
            worst = np.maximum(worst, total)
        worst[unknown] = np.inf
        rows = np.arange(len(worst))
        excess = worst / norm[:, None]
        j = np.nan_to_num(excess, nan=np.inf).argmax(1)
        weight_v = np.abs(dual_v[rows, j])
        linear = v_linear[rows, j] + b_linear[rows, j] * middle[:, None]
        if sphere is not None:
            radial, squared = sphere[0], sphere[1]
            linear = linear - ((linear * radial).sum(1) / squared)[:, None] * radial
        bent = np.abs(x.a) * gate.reach[..., None] + np.abs(gate.a) * x.reach[..., None]
        split = np.abs(linear) + np.matmul(weight_v[:, None], bent)[:, 0]
        curved = 0.25 * (np.abs(gate.c) * x.reach)[..., None] * np.abs(x.a)
        curved = curved + 0.25 * (np.abs(x.c) * gate.reach)[..., None] * np.abs(gate.a)
        split = split + np.matmul(weight_v[:, None], curved)[:, 0]
        split = split + np.abs(at[rows, j] * middle)[:, None] * np.abs(nu.a)
        if not self.by_direction:
            return excess, split
        off: Array = np.zeros(len(rows))
        for end in ends:
            there = (nu.c * end)[:, None] * base.c + through
            off = np.maximum(off, np.sqrt(np.square(there).mean(1)) - (along * there).sum(1))
        return excess, np.column_stack([split, off * above[rows, j]])

    def _norm_above(
        self, base: Affine, v: Affine, nu: Affine, nu_reach: Array, through: Array, lam: Array
    ) -> tuple[Array, Array]:
        """An upper bound of N(s), a constant and a linear part, for one λ."""
        d, out = self.size, self._out
        mu = nu.c * lam
        centre = mu[:, None] * base.c + through
        t = np.sqrt(np.square(centre).mean(1)) + 1e-9
        along = centre / (d * t)[:, None]
        a = np.matmul(out, v.a) + mu[:, None, None] * base.a + base.c[..., None] * (nu.a * lam[:, None])[:, None, :]
        e = v.e @ np.abs(out).T + np.abs(base.c) * (nu.e * lam)[:, None] + base.reach * (nu_reach * lam)[:, None]
        e = e + mu[:, None] * base.e
        reach = np.abs(a).sum(-1) + e
        quadratic = (np.square(reach).mean(1) + self.epsilon * np.square(nu.c + nu_reach)) / (2 * t)
        size = t + quadratic + (np.abs(along) * reach).sum(1)
        size = size + (np.abs(v.c) + v.reach) @ np.abs(out).T.sum(1) + (mu[:, None] * np.abs(base.c)).sum(1)
        constant = t + quadratic + (np.abs(along) * e).sum(1) + SLACK * size
        return constant, np.matmul(along[:, None], a)[:, 0]

    def _sphere(self, c: Array, half: Array, least: Array) -> tuple[Array, Array, Array, Array]:
        """r ξ = Σ cₖ wₖ ξₖ lies between two numbers, as |û|² = |c|² + 2 r ξ + Σ wₖ² ξₖ² is known."""
        radial = c * half
        squares = np.square(c).sum(1)
        high = (self.size + MARGIN - squares) / 2
        low = (self.size * (1 - self.epsilon / np.square(least)) - MARGIN - squares - np.square(half).sum(1)) / 2
        return radial, np.square(radial).sum(1) + 1e-300, low, high


def _exactly(matrix: Ball, offset: Ball) -> tuple[Array, Array, Array]:
    return matrix.midpoint, offset.midpoint, offset.radius


def _times(left: Affine, right: Affine) -> Affine:
    """The product; of aₖ bₖ ξₖ², which lies between 0 and aₖ bₖ, half belongs to the centre."""
    squares = left.a * right.a
    near, far = left.reach, right.reach
    e = near * far - np.abs(squares).sum(-1) / 2 + np.abs(left.c) * right.e + np.abs(right.c) * left.e
    return Affine(
        left.c * right.c + squares.sum(-1) / 2,
        left.a * right.c[..., None] + right.a * left.c[..., None],
        e + SLACK * (np.abs(left.c) + near) * (np.abs(right.c) + far),
    )


def _largest(linear: Array, sphere: tuple[Array, Array, Array, Array] | None) -> Array:
    """The largest Σ aₖ ξₖ, as far as it is known, ``[N, m]``."""
    found = np.abs(linear).sum(-1)
    if sphere is None:
        return found * (1 + SLACK)
    radial, squared, low, high = sphere
    rows, axis = np.arange(len(radial)), np.abs(radial).argmax(1)
    main = radial[rows, axis]
    main = np.where(np.abs(main) < 1e-30, 1e-30, main)
    for factor in ((linear * radial[:, None]).sum(-1) / squared[:, None], linear[rows, :, axis] / main[:, None]):
        beyond = np.where(factor > 0, factor * high[:, None], factor * low[:, None])
        rest = np.abs(linear - factor[..., None] * radial[:, None]).sum(-1)
        size = np.abs(factor) * (np.abs(high) + np.abs(low) + np.abs(radial).sum(1) + 1)[:, None]
        found = np.minimum(found, rest + beyond + SLACK * size)
    return found * (1 + SLACK) + SLACK * np.abs(linear).sum(-1)


def _squares(lo: Array, hi: Array) -> tuple[Array, Array]:
    near = np.maximum(np.maximum(lo, -hi), 0)
    return np.square(near), np.square(np.maximum(np.abs(lo), np.abs(hi)))


def _within_ball(lo: Array, hi: Array, squared: float) -> tuple[Array, Array]:
    near, _ = _squares(lo, hi)
    side = np.sqrt(np.maximum(squared - (near.sum(1)[:, None] - near), 0)) + MARGIN
    return np.maximum(lo, -side), np.minimum(hi, side)


def _outside_ball(lo: Array, hi: Array, squared: Array) -> tuple[Array, Array]:
    """Take away what is within, where the box reaches it from one side only."""
    _, far = _squares(lo, hi)
    needed = squared[:, None] - (far.sum(1)[:, None] - far)
    side = np.sqrt(np.maximum(needed, 0)) - MARGIN
    lower = np.where((needed > 0) & (lo > -side), np.maximum(lo, side), lo)
    upper = np.where((needed > 0) & (hi < side), np.minimum(hi, -side), hi)
    empty = far.sum(1) < squared
    lower[empty] = np.inf
    return lower, upper


def _within_planes(lo: Array, hi: Array, planes: Array, bounds: Array) -> tuple[Array, Array]:
    """Take away what is beyond planes p·q ≤ b, ``[k, d]`` and ``[N, k]``; a box without a point has lo > hi."""
    if not len(planes):
        return lo, hi
    c, w = (lo + hi) / 2, (hi - lo) / 2
    room = bounds - (c @ planes.T - w @ np.abs(planes).T) + MARGIN
    empty = (room < 0).any(1)
    room = np.maximum(room, 0)
    wide = np.abs(planes) > 1e-6
    step = np.where(wide, 1 / np.where(wide, np.abs(planes), 1.0), np.inf)
    with np.errstate(invalid="ignore"):
        cut = room[:, :, None] * step[None]
    cut = np.where(np.isnan(cut), np.inf, cut) + MARGIN
    upper = np.minimum(hi, lo + np.where(planes > 0, cut, np.inf).min(1))
    lower = np.maximum(lo, hi - np.where(planes < 0, cut, np.inf).min(1))
    lower[empty] = np.inf
    return lower, upper


def _silu_range(x: Affine) -> tuple[Array, Array]:
    r = x.reach
    low, high = (functions.silu(Ball.exact(x.c + sign * r)) for sign in (-1, 1))
    least = np.where(x.c - r >= LEAST_AT, low.lower, LEAST_SILU)
    return least, np.maximum(low.upper, high.upper)


def _hull(low: Array, high: Array) -> Ball:
    middle = (low + high) / 2
    return Ball(middle, np.maximum(high - middle, middle - low) * (1 + SLACK) + 1e-300)
