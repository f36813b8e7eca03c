"""∂Φ of a small Mamba-2 model over a box of latents, for states in a box, by affine forms.

With the names of `implicit.enclosed.latent_cells`, a dash for the derivative by one entry of z, and n̂ = v/ν,
ŝ = s/N of root mean square nearly 1:

    û' = (z' − û (û · z') / d) / λ ,
    v' = (x' + (α/β)' h) ⊙ silu(gate) + (x + (α/β) h) ⊙ silu(gate)' ,
    n̂' = (v' − n̂ (n̂ · v' / d_inner + (ε/β²)' / 2ν)) / ν ,      s' = z' + W n̂' ,
    Φ' = w (s' − ŝ (ŝ · s') / d) / N .

Columns of a derivative stand one below the other, as cells do: form (k, i) is that of entry i by z_k. Balls
would do the same with no memory of where their errors come from, and are fifty times wider on boxes of 0.01.
"""

import numpy as np

from implicit.enclosed.affine import SILU_TURN, SLACK, Affine, mapped, plus, silu, times
from implicit.enclosed.latent_cells import LatentCells
from theory.rigorous.balls import Ball, Dual, functions
from theory.rigorous.balls.ball import Array


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def derivative(cells: LatentCells, centre: Array, half: Array) -> Ball:
    """Enclose ∂Φ over the latents within half of a centre, entry by entry, at all states of the box.

    Args:
        cells: the model at a token and a box of states; its token is used, and its states.
        centre: ``[d]``.
        half: ``[d]``.

    Returns:
        ``[d, d]``, row i column k that of Φᵢ by z_k; infinite or NaN where nothing is found.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> model = load_run("parity-small").model
        >>> cells = LatentCells(model, 0, Ball.exact(np.zeros(18)), np.zeros(8), np.eye(8), 0.0)
        >>> found = derivative(cells, np.full(8, 0.3), np.full(8, 0.001))
        >>> found.shape, bool(found.radius.max() < 0.02)
        ((8, 8), True)
    """
    d = cells.size
    z = Affine(centre[None], np.diag(half)[None], np.zeros((1, d)))
    unit = Affine(np.eye(d), np.zeros((d, d, d)), np.zeros((d, d)))
    inverse = cells._inverse_length(z)
    direction = times(z, inverse)
    read = times(_turned(unit, direction, d, None), inverse)
    gate_in, x_in = cells._read(cells._gate, direction), cells._read(cells._x, direction)
    gate, x = silu(gate_in), silu(x_in)
    gate_slope = times(_silu_slope(gate_in), mapped(cells._gate[0], read))
    x_slope = times(_silu_slope(x_in), mapped(cells._x[0], read))
    ratio, beta = _factors(cells, direction, read)
    held = _widened(x, ratio.value * cells.h)
    v = times(held, gate)
    v_slope = times(_widened(x_slope, ratio.tangent.reshape(d, 1) * cells.h), gate)
    v_slope = plus(v_slope, times(held, gate_slope))
    nu = cells._length(v, beta.value[0])
    # (ε/β²)' / 2ν = −ε β' / β³ν
    least = beta.value.mignitude[0, 0] ** 3 * (nu.c - nu.reach)[0, 0]
    lost = cells.epsilon * beta.tangent.magnitude[0, 0] / least * (1 + SLACK)
    inverse = _inverse(nu)
    mixed = times(v, inverse)
    inner = len(cells.h.midpoint)
    turn = times(_turned(v_slope, mixed, inner, lost), inverse)
    sign = np.where(beta.value.midpoint[0, 0] < 0, -1.0, 1.0)
    out = cells._out * sign
    s, s_slope = plus(z, mapped(out, mixed)), plus(unit, mapped(out, turn))
    inverse = cells._inverse_length(s)
    image = times(s, inverse)
    slope = times(_turned(s_slope, image, d, None), inverse)
    found = Ball(slope.c.T, slope.reach.T) * Ball.exact(cells.weight[:, None])
    known = beta.value.mignitude[0, 0] > 0 and nu.c[0, 0] > nu.reach[0, 0]
    return found if known else Ball(found.midpoint, np.full_like(found.radius, np.inf))


def _turned(slope: Affine, image: Affine, size: int, lost: Array | None) -> Affine:
    """A' − â (â · a' / n + lost), for â of root mean square near 1; ``lost`` bounds what else there is."""
    along = times(image, slope)
    total = Affine(
        along.c.sum(1, keepdims=True) / size,
        along.a.sum(1, keepdims=True) / size,
        (along.e.sum(1, keepdims=True) + SLACK * (np.abs(along.c) + along.reach).sum(1, keepdims=True))
        / size
        * (1 + SLACK),
    )
    if lost is not None:
        total = Affine(total.c, total.a, total.e + lost[:, None])
    back = times(image, total)
    return plus(slope, Affine(-back.c, -back.a, back.e))


def _silu_slope(x: Affine) -> Affine:
    """silu'(x) by its tangent at c, as |silu'''| ≤ `SILU_TURN`."""
    r = x.reach
    sigma = functions.sigmoid(Ball.exact(x.c)).midpoint
    value, slope = sigma * (1 + x.c * (1 - sigma)), sigma * (1 - sigma) * (2 - x.c * (2 * sigma - 1))
    rest = SILU_TURN * r * r / 2
    size = (np.abs(x.c) + 1) * (1 + 2 * r) + r * r
    return Affine(value, x.a * slope[..., None], x.e * np.abs(slope) + rest + SLACK * size)


def _inverse(x: Affine) -> Affine:
    """1/x for a form x > 0, from 1/x = 1/m − (x − m)/m² + (x − m)²/(m² x); infinite where it may be 0."""
    spread = x.reach
    low = x.c - spread
    slope = 1 / np.square(x.c)
    rest = np.where(low > 0, np.square(spread) * slope / np.where(low > 0, low, 1.0), np.inf)
    error = x.e * slope + rest / 2 + SLACK * (1 / np.abs(x.c) + spread * slope + rest)
    return Affine(1 / x.c + rest / 2, -x.a * slope[..., None], error)


def _widened(x: Affine, other: Ball) -> Affine:
    """The sum of a form and a ball, whose radius is an error."""
    size = np.abs(x.c) + np.abs(other.midpoint) + other.radius
    return Affine(x.c + other.midpoint, x.a, x.e + other.radius * (1 + SLACK) + SLACK * size)


def _factors(cells: LatentCells, direction: Affine, read: Affine) -> tuple[Dual, Dual]:
    """α/β and β with their derivatives by z, ``[1, 1]`` and ``[1, 1, d]``."""
    shared, step = cells._read(cells._both, direction), cells._read(cells._step, direction)
    slopes = [mapped(part[0], read) for part in (cells._both, cells._step)]
    both = Dual(Ball(shared.c, shared.reach), Ball(slopes[0].c.T[None], slopes[0].reach.T[None])).silu()
    delta = Dual(Ball(step.c, step.reach), Ball(slopes[1].c.T[None], slopes[1].reach.T[None])).softplus()
    b, c = both[:1], both[1:]
    decay = delta.scaled(cells._rate.reshape(1)).exp()
    beta = (delta * (b * c)).shifted(cells._skip.reshape(1))
    # 1/β with its derivative −β'/β²
    value = Ball.exact(1.0) / beta.value
    inverse = Dual(value, beta.tangent * -(value * value).reshape(1, 1, 1))
    return decay * c * inverse, beta
