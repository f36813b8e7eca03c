# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Whether a cell of directions of latents can hold a fixed point, and the halving of those that may.

Every quantity is an affine form c + Σ aₖ ξₖ ± e in the coordinates |ξₖ| ≤ 1 of the cell, as in
`implicit.enclosed.affine`, whose bounds these are; one form is a row of a table, c first, then a, then e. A
row is off by rounding as well: every sum here has fewer than 2⁶ terms, each of fewer than 2⁵ roundings and
functions of relative error 2⁻⁴⁴; `SLACK` times the sum of their sizes is added to e, whatever the order of
the sums. What overflows is infinite or NaN, with which no comparison excludes a cell.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.jit import compiled, inner

# Those of `implicit.enclosed.affine`, which a test compares; machine code holds them as constants.
SLACK = 2.0**-38
LEAST_BEND, MOST_BEND = -0.1, 0.5
SILU_TURN = 0.35
LEAST_SILU, LEAST_AT = -0.28, -1.27

MARGIN = 1e-9
"""By how much the ends of a tightened cell are moved outwards."""
NEAR, TOWARDS_ZERO = 0, 1
"""What is asked of a cell: a fixed point on the sphere, or one near the latent zero."""
OPEN, EXCLUDED = 0, 1
ROOM = 4096
"""Cells that can wait; each halving leaves one behind, and no cell is halved so often."""


class Block(NamedTuple):
    """The block at the states of a box: weights, offsets and their radii.

    ``read`` are the rows that read û: gate, x, B and C, Δ; ``out`` is W; ``h`` is the SSM's state;
    ``weight`` that of the last norm; ``shortest`` a lower bound of |v / w|, ``smallest`` χ.
    """

    read: np.ndarray
    offset: np.ndarray
    offset_radius: np.ndarray
    out: np.ndarray
    h: np.ndarray
    h_radius: np.ndarray
    weight: np.ndarray
    rate: float
    rate_radius: float
    skip: float
    skip_radius: float
    epsilon: float
    shortest: float
    smallest: float


class Room(NamedTuple):
    """Tables of forms, used again for every cell, and places for what is computed of them."""

    form: np.ndarray
    gate: np.ndarray
    x: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    stream: np.ndarray
    equation: np.ndarray
    inverse: np.ndarray
    work: np.ndarray
    bent: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lost: np.ndarray
    sizes: np.ndarray
    away: np.ndarray
    middle: np.ndarray
    half: np.ndarray


@inner
def reach(form):
    """How far a form comes from its centre, at most."""
    total = form[-1]
    for k in range(1, len(form) - 1):
        total += abs(form[k])
    return total * (1 + SLACK)


@inner
def times(left, right, found):
    """The product; of aₖ bₖ ξₖ², between 0 and aₖ bₖ, half belongs to the centre."""
    near, far = reach(left), reach(right)
    half, size = 0.0, 0.0
    for k in range(1, len(left) - 1):
        square = left[k] * right[k]
        half += square
        size += abs(square)
        found[k] = left[k] * right[0] + right[k] * left[0]
    error = near * far - size / 2 + abs(left[0]) * right[-1] + abs(right[0]) * left[-1]
    found[0] = left[0] * right[0] + half / 2
    found[-1] = error + SLACK * (abs(left[0]) + near) * (abs(right[0]) + far)


@inner
def silu(x, found):
    """X σ(x) by its second-order Taylor polynomial at c."""
    r, c = reach(x), x[0]
    sigma = 1 / (1 + np.exp(-c))
    slope = sigma * (1 + c * (1 - sigma))
    bend = sigma * (1 - sigma) * (2 - c * (2 * sigma - 1))
    most = min(max(bend + SILU_TURN * r + SLACK, 0.0), MOST_BEND) * r * r / 2
    least = min(max(bend - SILU_TURN * r - SLACK, LEAST_BEND), 0.0) * r * r / 2
    for k in range(1, len(x) - 1):
        found[k] = x[k] * slope
    found[0] = c * sigma + (most + least) / 2
    size = (abs(c) + 1) * (1 + 2 * r) + r * r
    found[-1] = x[-1] * abs(slope) + (most - least) / 2 + SLACK * size


@inner
def inverse(middle, linear, error, least, found):
    """1/x of a form x ≥ least > 0, from 1/x = 1/m − (x − m)/m² + (x − m)²/(m² x)."""
    spread = error
    for k in range(1, len(found) - 1):
        spread += abs(linear[k])
    spread *= 1 + SLACK
    low = max(middle - spread, least)
    slope = 1 / (middle * middle)
    rest = spread * spread * slope / low * (1 + SLACK)
    for k in range(1, len(found) - 1):
        found[k] = -linear[k] * slope
    found[0] = 1 / middle + rest / 2
    found[-1] = error * slope + rest / 2 + SLACK * (1 / middle + spread * slope + rest)


@inner
def inverse_length(middle, half, scale, least, linear, found):
    """1/|D v| for the box of v with a diagonal D: the length lies between its tangent and a parabola."""
    squares, bend = 0.0, 0.0
    for k in range(len(middle)):
        squares += (scale[k] * middle[k]) ** 2
        bend += (scale[k] * half[k]) ** 2
    length = np.sqrt(squares)
    bend *= (1 + SLACK) / (2 * length)
    for k in range(len(middle)):
        linear[k + 1] = scale[k] * scale[k] * middle[k] * half[k] / length
    inverse(length + bend / 2, linear, bend / 2 + 4 * SLACK * (length + bend), least, found)


@inner
def mapped(weights, forms, sizes, found):
    """Σ wₚ formₚ; ``sizes`` are bounds of the forms."""
    found[:] = 0.0
    size, last = 0.0, len(found) - 1
    for p in range(len(weights)):
        weight = weights[p]
        for k in range(last):
            found[k] += weight * forms[p, k]
        size += abs(weight) * sizes[p]
        found[last] += abs(weight) * forms[p, last]
    found[last] = found[last] * (1 + SLACK) + SLACK * size


@inner
def read(block, row, middle, half, axis, shrunk, room, found):
    """A row of the input projection: (row · v) √d κ / |v| + offset; ``shrunk`` is √d κ / |v|."""
    product, weights = room.work[0], block.read[row]
    product[:] = 0.0
    size = 0.0
    for k in range(len(middle)):
        product[0] += weights[k] * middle[k]
        if k != axis:
            product[k + 1] = weights[k] * half[k]
        size += abs(weights[k]) * (abs(middle[k]) + half[k])
    product[-1] = SLACK * size
    times(product, shrunk, found)
    found[0] += block.offset[row]
    found[-1] += block.offset_radius[row] + SLACK * (abs(block.offset[row]) + abs(found[0]))


@inner
def silu_ends(low, high):
    """The range of silu on an interval: it falls, and then rises."""
    at_low, at_high = low / (1 + np.exp(-low)), high / (1 + np.exp(-high))
    least = at_low if low >= LEAST_AT else LEAST_SILU
    return least - SLACK * (1 + abs(low)), max(at_low, at_high) + SLACK * (1 + abs(low) + abs(high))


@inner
def product_ends(a, b, c, d):
    """The range of x y for a ≤ x ≤ b and c ≤ y ≤ d."""
    first, second, third, fourth = a * c, a * d, b * c, b * d
    low, high = min(first, second, third, fourth), max(first, second, third, fourth)
    return low - SLACK * abs(low), high + SLACK * abs(high)


@inner
def softplus(x):
    """log(1 + eˣ)."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@inner
def factors(block, middle, half, axis, shrunk, room):
    """The ends of α/β and of β, the same for all channels."""
    inner, form = len(block.h), room.work[1]
    first = 2 * inner
    read(block, first, middle, half, axis, shrunk, room, form)
    r = reach(form)
    b_low, b_high = silu_ends(form[0] - r, form[0] + r)
    read(block, first + 1, middle, half, axis, shrunk, room, form)
    r = reach(form)
    c_low, c_high = silu_ends(form[0] - r, form[0] + r)
    read(block, first + 2, middle, half, axis, shrunk, room, form)
    r = reach(form)
    step_low, step_high = softplus(form[0] - r) * (1 - SLACK), softplus(form[0] + r) * (1 + SLACK)
    rate_low, rate_high = block.rate - block.rate_radius, block.rate + block.rate_radius  # below 0
    decay_low = np.exp(step_high * rate_low * (1 + SLACK)) * (1 - SLACK)
    decay_high = np.exp(step_low * rate_high * (1 - SLACK)) * (1 + SLACK)
    both_low, both_high = product_ends(b_low, b_high, c_low, c_high)
    both_low, both_high = product_ends(step_low, step_high, both_low, both_high)
    beta_low = both_low + block.skip - block.skip_radius
    beta_high = both_high + block.skip + block.skip_radius
    size = SLACK * (abs(both_low) + abs(both_high) + abs(block.skip))
    beta_low, beta_high = beta_low - size, beta_high + size
    if beta_low <= 0 <= beta_high:
        return -np.inf, np.inf, beta_low, beta_high
    low, high = product_ends(decay_low, decay_high, c_low, c_high)
    low, high = product_ends(low, high, 1 / beta_high, 1 / beta_low)
    return low - SLACK * abs(low), high + SLACK * abs(high), beta_low, beta_high


@inner
def gated(block, middle, half, axis, shrunk, room):
    """V = (x + (α/β) h) silu(gate) of every channel, with the sign of β, and the ends of |β|."""
    low, high, beta_low, beta_high = factors(block, middle, half, axis, shrunk, room)
    ratio, spread = (low + high) / 2, (high - low) / 2 * (1 + SLACK)
    sign = -1.0 if beta_high < 0 else 1.0
    form = room.work[1]
    for p in range(len(block.h)):
        read(block, p, middle, half, axis, shrunk, room, form)
        silu(form, room.gate[p])
        read(block, len(block.h) + p, middle, half, axis, shrunk, room, form)
        silu(form, room.x[p])
        moved = room.work[2]
        for k in range(len(moved)):
            moved[k] = room.x[p, k]
        moved[0] += ratio * block.h[p]
        off = spread * (abs(block.h[p]) + block.h_radius[p]) + abs(ratio) * block.h_radius[p]
        moved[-1] += off + SLACK * (abs(moved[0]) + abs(ratio * block.h[p]) + off)
        times(moved, room.gate[p], room.v[p])
        if sign < 0:
            for k in range(len(form) - 1):
                room.v[p, k] *= -1.0
        room.sizes[p] = abs(room.v[p, 0]) + reach(room.v[p])
    return min(abs(beta_low), abs(beta_high)), max(abs(beta_low), abs(beta_high)), beta_low * beta_high > 0


@inner
def length(block, beta_least, beta_most, room, found):
    """ν = (mean v² + ε/β²)^½: between its tangent and the parabola above it."""
    size = len(block.h)
    near = np.sqrt(block.epsilon) / beta_most * (1 - SLACK)
    far = np.sqrt(block.epsilon) / beta_least * (1 + SLACK)
    squares, bend = 0.0, 0.0
    for p in range(size):
        squares += room.v[p, 0] ** 2
        bend += (room.sizes[p] - abs(room.v[p, 0]) * (1 - SLACK)) ** 2
    t = np.sqrt(squares / size + near * near)
    found[:] = 0.0
    bound = 0.0
    for p in range(size):
        unit = room.v[p, 0] / (size * t)
        for k in range(1, len(found) - 1):
            found[k] += unit * room.v[p, k]
        found[-1] += abs(unit) * room.v[p, -1]
        bound += abs(unit) * room.sizes[p]
    bend = (bend / size + far * far - near * near) / (2 * t) * (1 + SLACK)
    found[0] = t + bend / 2
    found[-1] = found[-1] * (1 + SLACK) + bend / 2 + SLACK * (t + bend + bound)


@inner
def farthest_from_zero(room, toward, size):
    """A lower bound of |W v + ρ z| over 0 ≤ ρ ≤ 1, along the direction in which it is nearest to zero.

    ``toward`` are the forms of z; those of W v stand in the room's ``mixed``, bounds of them in its ``away``.
    """
    inner, along, squares = 0.0, 0.0, 0.0
    for j in range(size):
        inner += room.mixed[j, 0] * toward[j, 0]
        along += toward[j, 0] ** 2
    share = 0.0 if along == 0 else min(max(-inner / along, 0.0), 1.0)
    for j in range(size):
        squares += (room.mixed[j, 0] + share * toward[j, 0]) ** 2
    if not squares > 0:
        return 0.0
    scale = (1 - SLACK) / np.sqrt(squares)
    first, second = room.work[0], room.work[1]
    first[:] = 0.0
    second[:] = 0.0
    bound, last = 0.0, len(first) - 1
    for j in range(size):
        unit = (room.mixed[j, 0] + share * toward[j, 0]) * scale
        for k in range(last):
            first[k] += unit * room.mixed[j, k]
            second[k] += unit * toward[j, k]
        first[last] += abs(unit) * room.mixed[j, last]
        second[last] += abs(unit) * toward[j, last]
        bound += abs(unit) * (room.away[j] + abs(toward[j, 0]) + reach(toward[j]))
    for k in range(last + 1):
        second[k] += first[k]
    near = min(first[0] - reach(first), second[0] - reach(second)) - 4 * SLACK * bound
    return max(near, 0.0)


@compiled
def examine(block, middle, half, axis, sign, task, room):
    """Return whether a cell is excluded, and leave its tightened ends in the room.

    ``middle`` and ``half`` are those of v and, in a place of its own at the end, of κ; along the axis half
    is 0. A bound of 1 − ρ stays in the room's ``lost``; 1 where none was come to.
    """
    d = len(block.weight)
    room.lost[0] = 1.0
    v_middle, v_half = middle[:d], half[:d]
    linear, shrunk, nu, form = room.form[0], room.form[1], room.form[2], room.form[3]
    root = np.sqrt(float(d))
    linear[:] = 0.0
    inverse_length(v_middle, v_half, room.work[4], 1.0, linear, shrunk)
    # √d κ / |v|: the coordinate of κ stands where that of the axis, which v has not, would
    kappa, kappa_half = middle[d], half[d]
    scaled = room.work[3]
    scaled[:] = 0.0
    scaled[0], scaled[axis + 1] = root * kappa, root * kappa_half
    scaled[-1] = SLACK * root
    product = room.form[4]
    times(shrunk, scaled, product)
    for k in range(len(shrunk)):
        shrunk[k] = product[k]
    beta_least, beta_most, known = gated(block, v_middle, v_half, axis, shrunk, room)
    if not known:
        return OPEN
    length(block, beta_least, beta_most, room, nu)
    for j in range(d):
        mapped(block.out[j], room.v, room.sizes, room.mixed[j])
        room.away[j] = abs(room.mixed[j, 0]) + reach(room.mixed[j])
    if task == TOWARDS_ZERO:
        # |u| is at most `smallest`: W v is no longer than that times ν
        for j in range(d):
            room.stream[j, :] = 0.0
        least = farthest_from_zero(room, room.stream, d)
        most = (nu[0] + reach(nu)) * block.smallest * (1 + SLACK)
        return EXCLUDED if least > most else OPEN
    # z ν = v √d ρ ν / |v / w|
    linear[:] = 0.0
    inverse_length(v_middle, v_half, room.work[5], block.shortest, linear, form)
    for k in range(len(form) - 1):
        form[k] *= root
    form[-1] = form[-1] * root * (1 + SLACK) + SLACK * (abs(form[0]) + reach(form))
    times(form, nu, product)
    for j in range(d):
        coordinate = room.work[2]
        coordinate[:] = 0.0
        coordinate[0] = v_middle[j]
        if j != axis:
            coordinate[j + 1] = v_half[j]
        times(coordinate, product, room.stream[j])
    near = farthest_from_zero(room, room.stream, d)
    above = (nu[0] + reach(nu)) * (1 + SLACK)
    # ρ is within `lost` of 1
    square = near * near / (d * above * above) * (1 - 8 * SLACK)  # at most mean s²
    lost = 1 - np.sqrt(square / (square + block.epsilon)) + 8 * SLACK
    room.lost[0] = lost
    for j in range(d):
        moved = room.stream[j]
        moved[-1] += lost * (abs(moved[0]) + reach(moved)) * (1 + SLACK)
        bound = abs(moved[0]) + reach(moved) + room.away[j]
        for k in range(len(moved)):
            moved[k] += room.mixed[j, k]
        moved[-1] += SLACK * bound
        for k in range(len(moved) - 1):
            moved[k] *= block.weight[j]
        moved[-1] *= abs(block.weight[j]) * (1 + SLACK)
        moved[-1] += SLACK * (abs(moved[0]) + reach(moved))
    main = room.stream[axis]
    if sign * main[0] + reach(main) < 0:
        return EXCLUDED
    return equations(v_middle, v_half, axis, sign, room, d)


@inner
def equations(middle, half, axis, sign, room, d):
    """σ tⱼ − t_axis vⱼ = 0 for every other j, with t = w s: without a solution the cell is excluded."""
    row, symbols = 0, d
    main = room.stream[axis]
    for j in range(d):
        if j == axis:
            continue
        coordinate, product, found = room.work[2], room.work[3], room.equation[row]
        coordinate[:] = 0.0
        coordinate[0], coordinate[j + 1] = middle[j], half[j]
        times(coordinate, main, product)
        for k in range(symbols + 1):
            found[k] = sign * room.stream[j, k] - product[k]
        size = abs(room.stream[j, 0]) + reach(room.stream[j]) + abs(product[0]) + reach(product)
        found[-1] = room.stream[j, -1] + product[-1] + SLACK * size
        # κ is no unknown: its part is an error
        found[-1] += abs(found[axis + 1])
        found[axis + 1] = 0.0
        if abs(found[0]) > reach(found):
            return EXCLUDED
        row += 1
    if separated(room, row):
        return EXCLUDED
    return newton(middle, half, axis, room, row, d)


@inner
def separated(room, rows):
    """Whether the sum of the equations with their centres as weights has no zero."""
    squares = 0.0
    for j in range(rows):
        squares += room.equation[j, 0] ** 2
    if not squares > 0:
        return False
    scale = (1 - SLACK) / np.sqrt(squares)
    found = room.work[0]
    found[:] = 0.0
    size = 0.0
    for j in range(rows):
        unit = room.equation[j, 0] * scale
        for k in range(len(found) - 1):
            found[k] += unit * room.equation[j, k]
        found[-1] += abs(unit) * room.equation[j, -1]
        size += abs(unit) * (abs(room.equation[j, 0]) + reach(room.equation[j]))
    return found[0] - reach(found) - SLACK * size > 0


@inner
def newton(middle, half, axis, room, rows, d):
    """Tighten the cell by the solution of the linear part: ξ = −B c − (B A − I) ξ − B e for any matrix B."""
    inverse = room.inverse
    good = invert(room, rows, axis, d)
    for k in range(d):
        room.low[k], room.high[k] = middle[k] - half[k], middle[k] + half[k]
    if not good:
        return OPEN
    place = 0
    for k in range(d):
        if k == axis:
            continue
        centre, error, size = 0.0, 0.0, 0.0
        for j in range(rows):
            centre -= inverse[place, j] * room.equation[j, 0]
            error += abs(inverse[place, j]) * room.equation[j, -1]
            size += abs(inverse[place, j]) * (abs(room.equation[j, 0]) + reach(room.equation[j]))
        column = 0
        for m in range(d):
            if m == axis:
                continue
            entry = -1.0 if column == place else 0.0
            for j in range(rows):
                entry += inverse[place, j] * room.equation[j, m + 1]
            error += abs(entry)
            column += 1
        error = error * (1 + SLACK) + SLACK * (size + 1)
        if not (centre - error <= 1 and centre + error >= -1):
            if np.isfinite(centre) and np.isfinite(error):
                return EXCLUDED
        elif half[k] > 0:
            low, high = max(-1.0, centre - error), min(1.0, centre + error)
            room.low[k] = max(room.low[k], middle[k] + half[k] * low - MARGIN)
            room.high[k] = min(room.high[k], middle[k] + half[k] * high + MARGIN)
        place += 1
    return OPEN


@inner
def invert(room, rows, axis, d):
    """An approximate inverse of the linear part, by elimination; whether there is one."""
    work, inverse = room.bent, room.inverse
    for j in range(rows):
        column = 0
        for m in range(d):
            if m == axis:
                continue
            work[j, column] = room.equation[j, m + 1]
            column += 1
        for m in range(rows):
            inverse[j, m] = 1.0 if m == j else 0.0
    for step in range(rows):
        pivot = step
        for j in range(step + 1, rows):
            if abs(work[j, step]) > abs(work[pivot, step]):
                pivot = j
        if not abs(work[pivot, step]) > 1e-300:
            return False
        for m in range(rows):
            work[step, m], work[pivot, m] = work[pivot, m], work[step, m]
            inverse[step, m], inverse[pivot, m] = inverse[pivot, m], inverse[step, m]
        scale = 1 / work[step, step]
        for m in range(rows):
            work[step, m] *= scale
            inverse[step, m] *= scale
        for j in range(rows):
            if j != step:
                factor = work[j, step]
                for m in range(rows):
                    work[j, m] -= factor * work[step, m]
                    inverse[j, m] -= factor * inverse[step, m]
    return True


@inner
def widest(block, low, high, half, axis, task, room):
    """The coordinate to halve: by what its width adds to the products of gates and x, and by itself."""
    d, best, most = len(block.weight), -1, -1.0
    for k in range(d + 1):
        if k == axis or not half[k] > 0 or (k == d and task == NEAR):
            continue
        width = high[k] - low[k]
        score = width * width
        if task == NEAR:
            bent = 0.0
            for p in range(len(block.h)):
                bent += abs(room.x[p, k + 1]) * reach(room.gate[p]) + abs(room.gate[p, k + 1]) * reach(
                    room.x[p]
                )
            score = bent * width / (2 * half[k]) + 0.2 * width * width
            if not np.isfinite(score):
                score = width * 1e100
        if score > most:
            best, most = k, score
    return best


@compiled
def search(block, task, axis, low, high, out_low, out_high, limit, room, stack):
    """Halve a cell until every part of it is excluded or left out.

    ``low`` and ``high`` are the ends of v and, behind them, of κ; along the axis they are equal. ``out_low``
    and ``out_high`` are those of what is left out, of v alone: nothing if they stand the wrong way round.
    Returns how many cells were examined, and whether none was open in the end.
    """
    d = len(block.weight)
    for k in range(d + 1):
        stack[0, 0, k], stack[0, 1, k] = low[k], high[k]
    sign, kappa_low, kappa_high = low[axis], low[d], high[d]
    waiting, examined = 1, 0
    middle, half = room.middle, room.half
    while waiting > 0:
        if examined >= limit or waiting >= ROOM - 1:
            return examined, False
        waiting -= 1
        examined += 1
        for k in range(d + 1):
            low, high = stack[waiting, 0, k], stack[waiting, 1, k]
            middle[k] = (low + high) / 2
            half[k] = max(high - middle[k], middle[k] - low) * (1 + SLACK) + 1e-15 if high > low else 0.0
            room.low[k], room.high[k] = low, high
        if examine(block, middle, half, axis, sign, task, room) == EXCLUDED:
            continue
        for k in range(d):
            room.low[k], room.high[k] = (
                max(room.low[k], stack[waiting, 0, k]),
                min(room.high[k], stack[waiting, 1, k]),
            )
        room.low[d], room.high[d] = kappa_low, kappa_high
        if task == TOWARDS_ZERO:
            room.low[d], room.high[d] = stack[waiting, 0, d], stack[waiting, 1, d]
        inside = True
        for k in range(d):
            inside = inside and room.low[k] >= out_low[k] and room.high[k] <= out_high[k]
        if inside:
            continue
        k = widest(block, room.low, room.high, half, axis, task, room)
        cut = 0.5 * (room.low[k] + room.high[k])
        if k < 0 or not room.low[k] < cut < room.high[k]:
            return examined, False
        for m in range(d + 1):
            for place in (waiting, waiting + 1):
                stack[place, 0, m], stack[place, 1, m] = room.low[m], room.high[m]
        stack[waiting, 1, k] = cut
        stack[waiting + 1, 0, k] = cut
        waiting += 2
    return examined, True
