"""Bounds of the self-map of a small Mamba-2 model over all latents of K, for states in a box.

Let y = z / w be the latent in units of the last norm's weights w, d its size, λ(z) = (mean z² + ε)^½ and û =
z / λ, so that |û|² = d (1 − ε/λ²). With one head of state size 1, all that Φ reads of z is û, but for the
residual stream:

    v = (x + (α/β) h) ⊙ silu(gate),  x = silu(taps · projected),  α = a C,  β = Δ B C + D
    s = ν z + W v,                   ν = (mean v² + ε/β²)^½,      W = out_proj diag(norm)
    Φ̂ = Φ / w = s / N,               N = (mean s² + ε ν²)^½

for β > 0; where β < 0 the gated norm gives v the other sign, and of a cell where the sign of β is not proved
nothing is. That the distance to c falls is |L (s − c N)| < |L (y − c)| N, without a quotient: N and a norm
are bounded from below by their tangents (Cauchy and Schwarz), from above by |a| ≤ (|a|² + t²) / 2t. All
quantities are affine forms, c + Σ aₖ ξₖ ± e with |ξₖ| ≤ 1, whose errors e take what is not affine (products
of two remainders, second derivatives of silu) and the rounding.

Cells are boxes of (û, λ), from which z = λ û: û turns fast near z = 0, where λ is small. That |û|² is d (1 −
ε/λ²) is used by a multiple of Σ cₖ (ûₖ − cₖ), chosen in floating point, of which any would do.
"""

import copy

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from implicit.enclosed.affine import SLACK, Affine, along, mapped, plus, silu, silu_range, times
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.coordinate_ranges import MARGIN, largest, outside_ball, squares, within_ball
from implicit.models.interface import SequenceModel
from theory.rigorous.balls import Ball, Dual, exp, functions
from theory.rigorous.balls.ball import Array, spectral_norm
from theory.rigorous.enclosure import damped_step

LARGEST_SIZE = 60
"""Features of a latent; the rounding of `implicit.enclosed.affine` is that of sums of fewer than 2⁶ terms."""
LARGEST_DEFECT = 1e-3
"""Of the inverse of a norm as it is computed."""


class LatentCells(EnclosedClosedLoop):
    """Φ̂ of one token at all states of a box, on cells: a `theory.rigorous.attraction.FallingDistance`.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        state: the box of states, window and h as `flatten_state` orders them, ``[n]``.
        centre: c, a latent, ``[d]``.
        norm: L, for latents divided by the last norm's weights, ``[d, d]``.
        inner: latents with |y − c|_L at most that are left out.

    Raises:
        InputError: for another model.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> model = load_run("parity-small").model
        >>> cells = LatentCells(model, 0, Ball.exact(np.zeros(18)), np.zeros(8), np.eye(8), 0.1)
        >>> lower, upper = cells.cover()
        >>> lower.shape
        (1, 9)
    """

    def __init__(
        self, model: SequenceModel, token: int, state: Ball, centre: Array, norm: Array, inner: float
    ) -> None:
        super().__init__(model)
        cell, d = self.cell, self.latent_size
        if cell.heads != 1 or cell.d_state != 1 or not self.residual or not self._alike():
            raise InputError(
                f"the model has {cell.heads} heads and d_state {cell.d_state}; give one with a single head, "
                "d_state 1, a residual stream, and norms of one epsilon"
            )
        if max(d, cell.d_inner) > LARGEST_SIZE:
            raise InputError(
                f"d_model is {d} and d_inner {cell.d_inner}; give a model with at most {LARGEST_SIZE} of each"
            )
        self.size, self.epsilon = d, cell.epsilon
        self.token, self.state = token, state
        self.centre, self.norm, self.inner = centre, norm, inner
        self.weight: Array = self.last_norm[0].midpoint
        self.region = norm / self.weight, centre  # latents left out: those with |M (z − m)| ≤ inner
        width, channels = cell.d_inner, cell.channels
        injected = self._injection[token]
        window, self.h = state[: self.window_size], state[self.window_size :]
        before = cell.conv_bias
        if self.window_size:
            taps = cell.earlier_taps.shape[1]
            before = before + (window.reshape(channels, taps) * cell.earlier_taps).sum(-1)
        matrix = cell.in_proj * self.norm_before[0]
        convolved = slice(width, width + channels)
        drive = matrix[convolved] * cell.last_tap[:, None]
        offset = injected[convolved] * cell.last_tap + before
        step = injected[width + channels :] + cell.dt_bias
        # gate, x, then B and C, then Δ: matrix, offset and its radius
        self._gate = _exactly(matrix[:width], injected[:width])
        self._x = _exactly(drive[:width], offset[:width])
        self._both = _exactly(drive[width:], offset[width:])
        self._step = _exactly(matrix[width + channels :], step)
        self._out = (cell.out_proj * cell.norm_weight).midpoint
        self._rate, self._skip = cell.rate[0], cell.skip[0]

    def _alike(self) -> bool:
        weights, epsilon = self.last_norm
        same = epsilon == self.cell.epsilon == self.norm_before[1] > 0
        return same and bool((weights.midpoint != 0).all())

    @np.errstate(all="ignore")
    def contraction(self, radius: float) -> tuple[float, float, float]:
        """Return bounds of ‖∂T‖_L where |z − c|_∞ ≤ radius and of |T(c) − c|_L, between them what is within.

        That is a distance ρ such that |z − c|_∞ ≤ radius wherever |y − c|_L ≤ ρ.
        """
        scale = Ball.exact(self.norm) * (Ball.exact(1.0) / Ball.exact(self.weight))  # L diag(1/w)
        back = Ball.exact(np.linalg.inv(scale.midpoint))
        state, token = self.state.reshape(1, -1), np.array([self.token])
        region = Ball.around(self.centre[None], radius)
        image, _ = self.advance(Dual.variable(region, self.size), Dual.constant(state, self.size), token)
        step = damped_step(image.tangent, self.damping)
        # S M S⁻¹ = (S M R)(S R)⁻¹ with R near S⁻¹, and ‖(S R)⁻¹‖ ≤ 1 / (1 − ‖I − S R‖)
        defect = float(spectral_norm(Ball.exact(np.eye(self.size)) - scale @ back))
        q = float(spectral_norm(scale @ step @ back)[0]) / (1 - defect) * (1 + SLACK)
        # |z − c|_∞ ≤ |rows of S⁻¹| |z − c|_L, with S⁻¹ = R (S R)⁻¹
        rows = float(np.sqrt(np.square(back.midpoint).sum(1)).max()) / (1 - defect) * (1 + SLACK)
        centre = Ball.exact(self.centre[None])
        there, _ = self.advance(Dual.constant(centre, 0), Dual.constant(state, 0), token)
        moved = scale @ ((there.value - centre) * self.damping).reshape(self.size, 1)
        shift = float(np.sqrt(np.square(moved.magnitude).sum())) * (1 + SLACK)
        return (q, radius / rows * (1 - SLACK), shift) if defect < 0.5 else (np.inf, 0.0, np.inf)

    @np.errstate(all="ignore")
    def image_radius(self, radius: float) -> float:
        """Return a bound of |T(y) − c|_L for all y with |y − c|_L ≤ radius; infinite where none is found."""
        d = self.size
        back = np.linalg.inv(self.norm)
        stretch = float(spectral_norm(Ball.exact(self.norm) @ Ball.exact(back) - Ball.exact(np.eye(d))))
        if not stretch < LARGEST_DEFECT:
            return np.inf
        axes = self.weight[:, None] * back * (radius / (1 - stretch) * (1 + SLACK))
        spread = SLACK * (np.abs(self.centre) + np.abs(axes).sum(1))
        z = Affine(self.centre[None], axes[None], spread[None], round=True)
        direction = times(z, self._inverse_length(z))
        _, _, beta, v, nu, stream = self._stream(direction, z)
        norm, _ = self._norms(stream, nu)
        least = float((norm.c - norm.reach)[0, 0])
        if not (least > 0 and beta.mignitude[0] > 0):
            return np.inf
        # T(y) − c = ((1 − τ) (y − c) N + τ (s − c N)) / N, and c N + ... with 1/N between two numbers
        fixed = self._negative_target(d, within_ball=True)
        moved = plus(times(mapped(self.norm, z), nu), self._through(v))
        moved = plus(moved, times(fixed, norm))
        inverse = 1 / float(norm.c[0, 0])
        linear = moved.a[0] * inverse
        keep, tau = (1 - self.damping) * radius, self.damping
        main = keep * np.eye(d) + tau * linear  # of (y − c) and of the main part of Φ̂ − c
        size = float(np.sqrt(np.square(moved.c).sum()) + np.sqrt(np.square(moved.reach).sum()))
        off = float(norm.reach[0, 0]) * inverse / least  # |1/N − 1/N_c|
        rest = tau * (size * off + inverse * float(np.sqrt(np.square(np.abs(moved.c) + moved.e).sum())))
        total = float(spectral_norm(Ball.exact(main))) + rest
        bound = total * (1 + 2 * SLACK) + SLACK * (size * inverse + radius + 1) + 3 * stretch * radius
        return bound if np.isfinite(bound) else np.inf

    def with_inner(self, inner: float, region: tuple[Array, Array] | None = None) -> "LatentCells":
        """Return the same with other latents left out: those with |M (z − m)| ≤ inner.

        Args:
            inner: the distance.
            region: M, ``[d, d]``, and m, ``[d]``; such that it is |y − c|_L if None.
        """
        other = copy.copy(self)
        other.inner = inner
        other.region = (self.norm / self.weight, self.centre) if region is None else region
        return other

    def cover(self) -> tuple[Array, Array]:
        """Return one cell with all latents of K."""
        side = np.full((1, self.size), np.sqrt(self.size) + MARGIN)
        largest = np.sqrt(np.square(self.weight).max() + self.epsilon) + MARGIN  # mean z² ≤ max w² mean y²
        lower = np.sqrt(self.epsilon) * (1 - MARGIN)
        return np.column_stack([-side, [lower]]), np.column_stack([side, [largest]])

    @np.errstate(all="ignore")  # of cells without a point
    def tighten(self, lower: Array, upper: Array) -> tuple[NDArray[np.bool_], Array, Array]:
        """See `theory.rigorous.attraction.FallingDistance`."""
        d, alive = self.size, np.full(len(lower), True)
        lo, hi, least, most = lower[:, :d], upper[:, :d], lower[:, d], upper[:, d]
        for _ in range(2):
            near, far = squares(lo, hi)
            alive &= near.sum(1) <= d + MARGIN
            gap = d - far.sum(1)  # of |û|² to d: ε d / λ² is not less
            with np.errstate(divide="ignore", invalid="ignore"):
                top = np.sqrt(d * self.epsilon / np.maximum(gap - MARGIN, 0)) * (1 + MARGIN)
            most = np.minimum(most, np.where(gap > MARGIN, top, np.inf))
            bottom = np.sqrt(d * self.epsilon / (np.maximum(d - near.sum(1), 0) + MARGIN)) * (1 - MARGIN)
            least = np.maximum(least, bottom)
            alive &= least <= most
            lo, hi = within_ball(lo, hi, d + MARGIN)
            shell = d * (1 - self.epsilon / np.square(least)) - MARGIN
            lo, hi = outside_ball(lo, hi, shell)
            alive &= (lo <= hi).all(1)
            hi = np.maximum(lo, hi)
            c, w = (lo + hi) / 2, (hi - lo) / 2 + MARGIN
            # K: λ |û / w| ≤ √d, the norm bounded from below along its value at the centre
            y = c / self.weight
            length = np.sqrt(np.square(y).sum(1)) + MARGIN
            turned = y / (length[:, None] * self.weight)
            low = (y * y).sum(1) / length - (np.abs(turned) * w).sum(1) - MARGIN
            end = (np.sqrt(d) + MARGIN) / np.maximum(low, MARGIN)
            most = np.where(low > MARGIN, np.minimum(most, end), most)
        alive &= least <= most
        lower = np.column_stack([lo, least])
        return alive, lower, np.column_stack([hi, np.maximum(least, most)])

    @np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
    def falls(self, lower: Array, upper: Array) -> tuple[NDArray[np.bool_], Array]:
        """See `theory.rigorous.attraction.FallingDistance`."""
        d = self.size
        middle = (lower + upper) / 2
        half = np.maximum(upper - middle, middle - lower) * (1 + SLACK) + 1e-15
        axes = np.eye(d + 1)[None] * half[:, None, :]
        direction = Affine(middle[:, :d], axes[:, :d], np.zeros_like(middle[:, :d]))
        length = Affine(middle[:, d:], axes[:, d:], np.zeros_like(middle[:, d:]))
        z = times(direction, length)
        gate, x, beta, v, nu, stream = self._stream(direction, z)
        norm, tangent = self._norms(stream, nu)
        # a = L (s − c N) and its length
        fixed = self._negative_target(d + 1)
        moved = plus(times(mapped(self.norm, z), nu), self._through(v))
        moved = plus(moved, times(fixed, norm))
        reach = moved.reach
        t = np.sqrt(np.square(moved.c).sum(1) + np.square(reach).sum(1)) * (1 + SLACK) + 1e-300
        far = Affine(t[:, None], *along(moved, moved.c / t[:, None]))
        # |L (y − c)| from below
        before = plus(mapped(self.norm / self.weight, z), fixed)
        size = np.sqrt(np.square(before.c).sum(1)) + 1e-300
        unit = before.c / size[:, None] * (1 - SLACK)
        near = Affine((before.c * unit).sum(1)[:, None], *along(before, unit))
        product = times(near, tangent)
        positive = (near.c - near.reach > 0) | (tangent.c - tangent.reach > 0)
        linear = far.a - product.a
        sphere = self._sphere(middle[:, :d], half[:, :d], lower[:, d])
        total = (far.c - product.c + far.e + product.e)[:, 0] + largest(linear, sphere)[:, 0]
        total = total + SLACK * (np.abs(far.c) + np.abs(product.c) + far.reach + product.reach)[:, 0]
        inside = self._left_out(z)
        falls = (total < 0) & positive[:, 0] & (beta.mignitude > 0)
        contributions = self._contributions(linear[:, 0], x, gate, moved, t, sphere)
        coarse = ~(tangent.c - tangent.reach > 0)  # nothing is known yet: the widest axis
        return falls | inside, np.where(coarse, half, contributions)

    def _through(self, v: Affine) -> Affine:
        """Return L W v; L may cancel most of W."""
        found = mapped(self.norm @ self._out, v)
        size = (np.abs(v.c) + v.reach) @ (np.abs(self.norm) @ np.abs(self._out)).T
        return Affine(found.c, found.a, found.e + SLACK * size, found.round)

    def _left_out(self, z: Affine) -> NDArray[np.bool_]:
        """Whether all of a cell is within the region whose latents need not be shown to come nearer."""
        matrix, middle = self.region
        goal, away = matrix @ middle, mapped(matrix, z)
        rounding = SLACK * (np.abs(matrix) @ np.abs(middle))
        reach = Affine(away.c, away.a, away.e + rounding).reach
        far = np.sqrt(np.square(away.c - goal).sum(1)) + np.sqrt(np.square(reach).sum(1))
        return np.asarray(far * (1 + SLACK) + MARGIN <= self.inner)

    def _negative_target(self, axes: int, *, within_ball: bool = False) -> Affine:
        """−L c, with c in units of the weights, ``[1, d]``; L may cancel most of it."""
        centre = self.centre / self.weight
        rounding = SLACK * (np.abs(self.norm) @ np.abs(centre))
        return Affine(
            -(self.norm @ centre)[None], np.zeros((1, self.size, axes)), rounding[None], within_ball
        )

    def _stream(self, direction: Affine, z: Affine) -> tuple[Affine, Affine, Ball, Affine, Affine, Affine]:
        """Gate, x, β, v, ν and s of a cell."""
        gate, x = silu(self._read(self._gate, direction)), silu(self._read(self._x, direction))
        ratio, beta = self._ratio(direction)
        v = _signed(self._values(x, gate, ratio), beta)
        nu = self._length(v, beta)
        stream = plus(times(z, nu), mapped(self._out, v))
        return gate, x, beta, v, nu, stream

    def _norms(self, stream: Affine, nu: Affine) -> tuple[Affine, Affine]:
        """N, and its tangent, which is nowhere above N."""
        d, reach = self.size, stream.reach
        t = np.sqrt(np.square(stream.c).mean(1)) * (1 + SLACK) + 1e-300
        unit = stream.c / (d * t)[:, None]
        a, e = along(stream, unit)
        largest = np.square(np.abs(nu.c) + nu.reach)[:, 0]
        bend = (np.square(reach).mean(1) + self.epsilon * largest) / (2 * t) * (1 + SLACK)
        centre = (stream.c * unit).sum(1)
        return (
            Affine((t + bend / 2)[:, None], a, e + (bend / 2 + 4 * SLACK * t)[:, None], stream.round),
            Affine(centre[:, None], a, e, stream.round),
        )

    def _contributions(
        self,
        linear: Array,
        x: Affine,
        gate: Affine,
        moved: Affine,
        t: Array,
        sphere: tuple[Array, Array, Array, Array],
    ) -> Array:
        """How much each axis adds to what is not known: linear parts off the sphere, and remainders."""
        radial, squared, _, _ = sphere
        split = np.abs(linear - ((linear * radial).sum(1) / squared)[:, None] * radial)
        onto = np.abs(np.matmul((moved.c / t[:, None])[:, None], (self.norm @ self._out)[None])[:, 0])
        bent = np.abs(x.a) * gate.reach[..., None] + np.abs(gate.a) * x.reach[..., None]
        curved = 0.25 * (np.abs(gate.c) * x.reach)[..., None] * np.abs(x.a)
        curved = curved + 0.25 * (np.abs(x.c) * gate.reach)[..., None] * np.abs(gate.a)
        split = split + np.matmul(onto[:, None], bent + curved)[:, 0]
        quadratic = np.matmul(moved.reach[:, None], np.abs(moved.a))[:, 0] / (2 * t)[:, None]
        return split + quadratic

    def _read(self, part: tuple[Array, Array, Array], direction: Affine) -> Affine:
        """Matrix û + offset."""
        matrix, offset, radius = part
        found = mapped(matrix, direction)
        return Affine(found.c + offset, found.a, found.e + radius + SLACK * np.abs(offset), found.round)

    def _inverse_length(self, z: Affine) -> Affine:
        """1/λ, ``[N, 1]``."""
        d, reach = self.size, z.reach
        t = np.sqrt(np.square(z.c).mean(1) + self.epsilon)
        bend = np.square(reach).sum(1) / (2 * d * t) * (1 + SLACK)
        a, e = along(z, z.c / (d * t)[:, None])
        middle = (t + bend / 2)[:, None]
        length = Affine(middle, a, e + (bend / 2 + 4 * SLACK * t)[:, None], z.round)
        spread = length.reach
        low = np.maximum(middle - spread, np.sqrt(self.epsilon) * (1 - SLACK))
        # 1/λ = 1/m − (λ − m)/m² + (λ − m)²/(m² λ)
        slope = 1 / np.square(middle)
        rest = np.square(spread) * slope / low * (1 + SLACK)
        error = length.e * slope + rest / 2 + SLACK * (1 / middle + spread * slope + rest)
        return Affine(1 / middle + rest / 2, -a * slope[..., None], error, z.round)

    def _ratio(self, direction: Affine) -> tuple[Ball, Ball]:
        """α/β and β, intervals, ``[N]``."""
        shared, step = self._read(self._both, direction), self._read(self._step, direction)
        low, high = silu_range(shared)
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
        """Return v = (x + ratio h) gate."""
        h, h_radius = self.h.midpoint, self.h.radius
        middle = x.c + ratio.midpoint[:, None] * h
        spread = ratio.radius[:, None] * (np.abs(h) + h_radius) + np.abs(ratio.midpoint)[:, None] * h_radius
        size = np.abs(x.c) + np.abs(ratio.midpoint[:, None] * h) + spread
        return times(Affine(middle, x.a, x.e + spread + SLACK * size, x.round), gate)

    def _length(self, v: Affine, beta: Ball) -> Affine:
        """ν, ``[N, 1]``: between its tangent and the parabola above it."""
        d, reach = v.c.shape[1], v.reach
        with np.errstate(divide="ignore"):
            near = np.sqrt(self.epsilon) / beta.magnitude * (1 - SLACK)
            far = np.sqrt(self.epsilon) / beta.mignitude * (1 + SLACK)
        t = np.sqrt(np.square(v.c).mean(1) + near * near)
        unit = v.c / (d * t)[:, None]
        bend = (np.square(reach).sum(1) / d + far * far - near * near) / (2 * t) * (1 + SLACK)
        a, e = along(v, unit)
        return Affine((t + bend / 2)[:, None], a, e + (bend / 2 + SLACK * (t + bend))[:, None], v.round)

    def _sphere(self, c: Array, half: Array, least: Array) -> tuple[Array, Array, Array, Array]:
        """Return bounds of r ξ = Σ cₖ wₖ ξₖ, as |û|² = |c|² + 2 r ξ + Σ wₖ² ξₖ² is known."""
        radial = np.column_stack([c * half, np.zeros(len(c))])
        squares = np.square(c).sum(1)
        high = (self.size + MARGIN - squares) / 2
        low = (
            self.size * (1 - self.epsilon / np.square(least)) - MARGIN - squares - np.square(half).sum(1)
        ) / 2
        return radial, np.square(radial).sum(1) + 1e-300, low, high


def _signed(v: Affine, beta: Ball) -> Affine:
    """Give v the sign of β; where β may be zero nothing is proved of it anyway."""
    sign = np.where(beta.midpoint < 0, -1.0, 1.0)[:, None]
    return Affine(v.c * sign, v.a * sign[..., None], v.e, v.round)


def _exactly(matrix: Ball, offset: Ball) -> tuple[Array, Array, Array]:
    return matrix.midpoint, offset.midpoint, offset.radius


def _hull(low: Array, high: Array) -> Ball:
    middle = (low + high) / 2
    return Ball(middle, np.maximum(high - middle, middle - low) * (1 + SLACK) + 1e-300)
