# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""What a block of Mamba-2 with one head of state size 1 adds to its residual stream, as affine forms.

The names are those of `implicit.enclosed.latent_cells`: V = (x + (α/β) h) silu(gate), ν its length.
"""

from typing import NamedTuple

import numpy as np

from implicit.enclosed.numba_cells.forms import (
    INFINITE,
    LANES,
    LEAST_AT,
    LEAST_SILU,
    SLACK,
    fill,
    reach,
    silu,
    times,
)
from implicit.ops.numba_shared.jit import ordered_inner


class Block(NamedTuple):
    """The block at the states of a box: weights, offsets and their radii.

    ``read`` are the rows that read û: gate, x, B and C, Δ; ``out`` is W; ``h`` is the SSM's state;
    ``weight`` that of the last norm; ``shortest`` a lower bound of |v / w|, ``least`` one of |wⱼ|.
    """

    read: np.ndarray
    offset: np.ndarray
    offset_radius: np.ndarray
    out: np.ndarray
    h: np.ndarray
    h_radius: np.ndarray
    weight: np.ndarray
    inverse_weight: np.ndarray
    ones: np.ndarray
    rate: float
    rate_radius: float
    skip: float
    skip_radius: float
    epsilon: float
    shortest: float
    least: float


class Room(NamedTuple):
    """Places for the forms of `LANES` cells, and for what is found of each.

    Forms ``[symbols, LANES]``: ``shrunk`` is √d κ / |v|; ``linear``, ``moved`` and ``product`` are whatever
    is needed. Tables of forms: of channels (``gate``, ``x``, ``v``), of features (``mixed`` W v, ``stream``
    z ν), and of the equations. Rows ``[·, LANES]``: the reach of gate and x; ``size`` and
    ``away``, bounds of v and W v, and ``equation_size``; the ends of |β|; middle, half-width and sign of
    α/β. ``near`` is |ν s| from below (|ν u| of short latents), ``above`` the reach of ν.

    Of each cell: ``middle`` and ``half``, what is examined; ``low`` and ``high``, its tightened ends;
    ``lost``, a bound of 1 − ρ, 1 where none was come to; ``known``, whether β has one sign; ``excluded``.
    """

    shrunk: np.ndarray
    nu: np.ndarray
    linear: np.ndarray
    moved: np.ndarray
    product: np.ndarray
    gate: np.ndarray
    x: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    stream: np.ndarray
    equation: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray
    gate_reach: np.ndarray
    x_reach: np.ndarray
    size: np.ndarray
    away: np.ndarray
    equation_size: np.ndarray
    beta: np.ndarray
    ratio: np.ndarray
    near: np.ndarray
    above: np.ndarray
    rows: np.ndarray
    spare: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lost: np.ndarray
    known: np.ndarray
    excluded: np.ndarray
    taken: np.ndarray


def room_for(d, channels):
    """Return a room for cells of directions of d entries, with all tables zero."""
    symbols = d + 2
    shapes = {
        **dict.fromkeys(("shrunk", "nu", "linear", "moved", "product"), (symbols,)),
        **dict.fromkeys(("gate", "x", "v"), (channels, symbols)),
        **dict.fromkeys(("mixed", "stream", "equation"), (d, symbols)),
        **dict.fromkeys(("matrix", "inverse"), (d, d)),
        **dict.fromkeys(("gate_reach", "x_reach", "size"), (channels,)),
        **dict.fromkeys(("away", "equation_size"), (d,)),
        "beta": (2,),
        "ratio": (3,),
        "near": (),
        "above": (),
        "rows": (8,),
        "spare": (6,),
        **dict.fromkeys(("middle", "half", "low", "high"), (d + 1,)),
        "lost": (),
    }
    return Room(
        **{name: np.zeros((*shape, LANES)) for name, shape in shapes.items()},
        known=np.zeros(LANES, dtype=np.bool_),
        excluded=np.zeros(LANES, dtype=np.bool_),
        taken=np.zeros((LANES, 2, d + 1)),
    )


@ordered_inner
def read(block, row, axis, middle, half, far, room, found):
    """A row of the input projection: (row · v) √d κ / |v| + offset; ``far`` is the reach of √d κ / |v|."""
    product, near, weights = room.linear, room.spare[2], block.read[row]
    last = len(found) - 1
    fill(product[0], 0.0)
    fill(product[last], 0.0)
    fill(near, 0.0)
    for k in range(len(weights)):
        weight = weights[k]
        for i in range(LANES):
            product[0, i] += weight * middle[k, i]
            product[k + 1, i] = weight * half[k, i]  # 0 along the axis
            near[i] += abs(product[k + 1, i])
            product[last, i] += abs(weight) * (abs(middle[k, i]) + half[k, i])
    for i in range(LANES):
        product[last, i] *= SLACK
        near[i] = (near[i] + product[last, i]) * (1 + SLACK)
    times(product, room.shrunk, near, far, room.spare, found)
    offset, radius = block.offset[row], block.offset_radius[row]
    for i in range(LANES):
        found[0, i] += offset
        found[last, i] += radius + SLACK * (abs(offset) + abs(found[0, i]))


@ordered_inner
def silu_ends(low, high):
    """The range of silu on an interval: it falls, and then rises."""
    at_low, at_high = low / (1 + np.exp(-low)), high / (1 + np.exp(-high))
    least = at_low if low >= LEAST_AT else LEAST_SILU
    return least - SLACK * (1 + abs(low)), max(at_low, at_high) + SLACK * (1 + abs(low) + abs(high))


@ordered_inner
def product_ends(a, b, c, d):
    """The range of x y for a ≤ x ≤ b and c ≤ y ≤ d."""
    first, second, third, fourth = a * c, a * d, b * c, b * d
    low, high = min(first, second, third, fourth), max(first, second, third, fourth)
    return low - SLACK * abs(low), high + SLACK * abs(high)


@ordered_inner
def softplus(x):
    """log(1 + eˣ)."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@ordered_inner
def factors(block, b, c, step):
    """The ends of α/β and of β, the same for all channels, from those of what B, C and Δ read."""
    b_low, b_high = silu_ends(b[0], b[1])
    c_low, c_high = silu_ends(c[0], c[1])
    step_low, step_high = softplus(step[0]) * (1 - SLACK), softplus(step[1]) * (1 + SLACK)
    rate_low, rate_high = block.rate - block.rate_radius, block.rate + block.rate_radius  # below 0
    decay_low = np.exp(step_high * rate_low * (1 + SLACK)) * (1 - SLACK)
    decay_high = np.exp(step_low * rate_high * (1 - SLACK)) * (1 + SLACK)
    both_low, both_high = product_ends(b_low, b_high, c_low, c_high)
    both_low, both_high = product_ends(step_low, step_high, both_low, both_high)
    beta_low = both_low + block.skip - block.skip_radius
    beta_high = both_high + block.skip + block.skip_radius
    size = SLACK * (abs(both_low) + abs(both_high) + abs(block.skip))
    beta_low, beta_high = beta_low - size, beta_high + size
    if not (beta_low > 0 or beta_high < 0):
        return -np.inf, np.inf, beta_low, beta_high
    low, high = product_ends(decay_low, decay_high, c_low, c_high)
    low, high = product_ends(low, high, 1 / beta_high, 1 / beta_low)
    return low - SLACK * abs(low), high + SLACK * abs(high), beta_low, beta_high


@ordered_inner
def gated(block, axis, middle, half, room):
    """V = (x + (α/β) h) silu(gate) of every channel, with the sign of β, and the ends of |β|."""
    inner, form, moved = len(block.h), room.product, room.moved
    last = len(form) - 1
    far, r = room.rows[0], room.rows[1]
    reach(room.shrunk, far)
    for part in range(3):  # B, C, Δ
        read(block, 2 * inner + part, axis, middle, half, far, room, form)
        reach(form, r)
        for i in range(LANES):
            room.rows[2 + 2 * part, i] = form[0, i] - r[i]
            room.rows[3 + 2 * part, i] = form[0, i] + r[i]
    ratio, spread, sign = room.ratio[0], room.ratio[1], room.ratio[2]
    ends = room.rows
    for i in range(LANES):
        low, high, beta_low, beta_high = factors(
            block, (ends[2, i], ends[3, i]), (ends[4, i], ends[5, i]), (ends[6, i], ends[7, i])
        )
        ratio[i], spread[i] = (low + high) / 2, (high - low) / 2 * (1 + SLACK)
        room.known[i] = beta_low > 0 or beta_high < 0
        for end in range(2, 8):
            room.known[i] &= abs(ends[end, i]) < INFINITE
        sign[i] = -1.0 if beta_high < 0 else 1.0
        room.beta[0, i] = min(abs(beta_low), abs(beta_high))
        room.beta[1, i] = max(abs(beta_low), abs(beta_high))
    for p in range(inner):
        read(block, p, axis, middle, half, far, room, form)
        reach(form, r)
        silu(form, r, room.spare, room.gate[p])
        reach(room.gate[p], room.gate_reach[p])
        read(block, inner + p, axis, middle, half, far, room, form)
        reach(form, r)
        silu(form, r, room.spare, room.x[p])
        reach(room.x[p], room.x_reach[p])
        h, h_radius = block.h[p], block.h_radius[p]
        for k in range(last + 1):
            for i in range(LANES):
                moved[k, i] = room.x[p, k, i]
        for i in range(LANES):
            moved[0, i] += ratio[i] * h
            off = spread[i] * (abs(h) + h_radius) + abs(ratio[i]) * h_radius
            moved[last, i] += off + SLACK * (abs(moved[0, i]) + abs(ratio[i] * h) + off)
        reach(moved, r)
        times(moved, room.gate[p], r, room.gate_reach[p], room.spare, room.v[p])
        for k in range(last):
            for i in range(LANES):
                room.v[p, k, i] *= sign[i]
        reach(room.v[p], room.size[p])
        for i in range(LANES):
            room.size[p, i] += abs(room.v[p, 0, i])


@ordered_inner
def length(block, room, found):
    """ν = (mean v² + ε/β²)^½: between its tangent and the parabola above it."""
    inner, last = len(block.h), len(found) - 1
    squares, bend, bound, added = room.rows[0], room.rows[1], room.rows[2], room.rows[3]
    root = np.sqrt(block.epsilon)
    fill(squares, 0.0)
    fill(bend, 0.0)
    fill(bound, 0.0)
    for p in range(inner):
        for i in range(LANES):
            centre = room.v[p, 0, i]
            away = room.size[p, i] - abs(centre) * (1 - SLACK)
            squares[i] += centre * centre
            bend[i] += away * away
    for i in range(LANES):
        near = root / room.beta[1, i] * (1 - SLACK)
        far = root / room.beta[0, i] * (1 + SLACK)
        squares[i] = np.sqrt(squares[i] / inner + near * near)
        added[i] = far * far - near * near
    for k in range(last + 1):
        fill(found[k], 0.0)
    for p in range(inner):
        unit = room.rows[4]
        for i in range(LANES):
            unit[i] = room.v[p, 0, i] / (inner * squares[i])
        for k in range(1, last):
            for i in range(LANES):
                found[k, i] += unit[i] * room.v[p, k, i]
        for i in range(LANES):
            found[last, i] += abs(unit[i]) * room.v[p, last, i]
            bound[i] += abs(unit[i]) * room.size[p, i]
    for i in range(LANES):
        bent = (bend[i] / inner + added[i]) / (2 * squares[i]) * (1 + SLACK)
        found[0, i] = squares[i] + bent / 2
        found[last, i] = found[last, i] * (1 + SLACK) + bent / 2
        found[last, i] += SLACK * (squares[i] + bent + bound[i])
