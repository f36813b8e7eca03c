# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Whether cells of directions of latents can hold a fixed point, and the halving of those that may."""

import numpy as np

from implicit.enclosed.numba_cells.block import Block as Block
from implicit.enclosed.numba_cells.block import gated, length
from implicit.enclosed.numba_cells.block import room_for as room_for
from implicit.enclosed.numba_cells.equations import equations, newton, separated, towards_zero
from implicit.enclosed.numba_cells.forms import (
    INFINITE,
    LANES,
    SLACK,
    fill,
    inverse_length,
    mapped,
    reach,
    times,
    times_coordinate,
)
from implicit.ops.numba_shared.jit import ordered, ordered_inner

FAR, NEAR, TOWARDS_ZERO = 0, 1, 2
"""What is asked of a cell: a fixed point on the sphere, far from known ones or near them, or near zero.

Far from fixed points each cell that is excluded is excluded by one equation alone, but for one in a
thousand; near them cells are tightened by all equations together.
"""
ROOM = 1 << 16
"""Cells that can wait: each halving leaves one behind, and none of `LANES` together is halved so often."""


@ordered_inner
def farthest_from_zero(room, d, found):
    """A lower bound of |W v + ρ z| over 0 ≤ ρ ≤ 1, along the direction in which it is nearest to zero.

    The forms of z are those of the room's ``stream``; those of W v stand in ``mixed``, bounds of them in
    ``away``.
    """
    first, second, last = room.linear, room.moved, d + 1
    dot, along, scale, bound, unit = room.rows[1], room.rows[2], room.rows[3], room.rows[4], room.rows[5]
    r, share = room.rows[6], room.rows[7]
    fill(dot, 0.0)
    fill(along, 0.0)
    fill(scale, 0.0)
    fill(bound, 0.0)
    for k in range(last + 1):
        fill(first[k], 0.0)
        fill(second[k], 0.0)
    for j in range(d):
        for i in range(LANES):
            dot[i] += room.mixed[j, 0, i] * room.stream[j, 0, i]
            along[i] += room.stream[j, 0, i] * room.stream[j, 0, i]
    for i in range(LANES):
        share[i] = min(max(-dot[i] / along[i], 0.0), 1.0) if along[i] > 0 else 0.0
    for j in range(d):
        for i in range(LANES):
            nearest = room.mixed[j, 0, i] + share[i] * room.stream[j, 0, i]
            scale[i] += nearest * nearest
    for i in range(LANES):
        scale[i] = (1 - SLACK) / np.sqrt(scale[i])
    for j in range(d):
        reach(room.stream[j], r)
        for i in range(LANES):
            unit[i] = (room.mixed[j, 0, i] + share[i] * room.stream[j, 0, i]) * scale[i]
            bound[i] += abs(unit[i]) * (room.away[j, i] + abs(room.stream[j, 0, i]) + r[i])
            first[last, i] += abs(unit[i]) * room.mixed[j, last, i]
            second[last, i] += abs(unit[i]) * room.stream[j, last, i]
        for k in range(last):
            for i in range(LANES):
                first[k, i] += unit[i] * room.mixed[j, k, i]
                second[k, i] += unit[i] * room.stream[j, k, i]
    for k in range(last + 1):
        for i in range(LANES):
            second[k, i] += first[k, i]
    reach(first, r)
    reach(second, unit)
    for i in range(LANES):
        slack = 4 * SLACK * bound[i]
        one, other = first[0, i] - r[i] - slack, second[0, i] - unit[i] - slack
        found[i] = min(one, other) if one > 0 and other > 0 else 0.0  # 0 of NaN, too


@ordered
def examine(block, axis, sign, task, room):
    """Find which of the cells in the room are excluded, and tighten the others.

    ``middle`` and ``half`` of the room are those of v and, in a place of its own at the end, of κ; along the
    axis half is 0.
    """
    d, spare = len(block.weight), room.spare
    middle, half, shrunk, form, product = room.middle, room.half, room.shrunk, room.moved, room.product
    last, root = d + 1, np.sqrt(float(d))
    fill(room.lost, 1.0)
    for i in range(LANES):
        room.excluded[i] = False
    for k in range(d):
        for i in range(LANES):
            room.low[k, i], room.high[k, i] = middle[k, i] - half[k, i], middle[k, i] + half[k, i]
    for k in range(last + 1):
        fill(room.linear[k], 0.0)
    inverse_length(middle, half, block.ones, 1.0, room.linear, spare, form)
    # √d κ / |v|: the coordinate of κ stands where that of the axis, which v has not, would
    far = room.rows[0]
    reach(form, far)
    times_coordinate(middle[d], half[d], axis + 1, form, far, shrunk)
    for k in range(last):
        for i in range(LANES):
            shrunk[k, i] *= root
    for i in range(LANES):
        size = abs(shrunk[0, i]) + root * (far[i] + abs(form[0, i]))
        shrunk[last, i] = root * shrunk[last, i] * (1 + SLACK) + SLACK * size
    gated(block, axis, middle, half, room)
    length(block, room, room.nu)
    for j in range(d):
        mapped(block.out[j], room.v, room.size, spare, room.mixed[j])
        reach(room.mixed[j], room.away[j])
        for i in range(LANES):
            room.away[j, i] += abs(room.mixed[j, 0, i])
    near, above = room.near, room.above
    reach(room.nu, above)
    if task == TOWARDS_ZERO:
        for j in range(d):
            for k in range(last + 1):
                fill(room.stream[j, k], 0.0)
        farthest_from_zero(room, d, near)
        towards_zero(block, axis, sign, room, d)
        return
    # z ν = v √d ρ ν / |v / w|
    for k in range(last + 1):
        fill(room.linear[k], 0.0)
    inverse_length(middle, half, block.inverse_weight, block.shortest, room.linear, spare, form)
    reach(form, far)
    for k in range(last):
        for i in range(LANES):
            form[k, i] *= root
    for i in range(LANES):
        form[last, i] = root * (form[last, i] * (1 + SLACK) + SLACK * (abs(form[0, i]) + far[i]))
    reach(form, far)
    times(form, room.nu, far, above, spare, product)
    reach(product, far)
    for j in range(d):
        times_coordinate(middle[j], half[j], j + 1, product, far, room.stream[j])
    farthest_from_zero(room, d, near)
    # ρ is within `lost` of 1
    for i in range(LANES):
        most = (room.nu[0, i] + above[i]) * (1 + SLACK)
        square = near[i] * near[i] / (d * most * most) * (1 - 8 * SLACK)  # at most mean s²
        lost = 1 - np.sqrt(square / (square + block.epsilon)) + 8 * SLACK
        room.lost[i] = lost if room.known[i] and lost < 1 else 1.0
    equations(block, axis, sign, room, d)
    if task == NEAR:
        separated(room, d - 1)
        newton(axis, room, d - 1, d)
    for i in range(LANES):
        room.excluded[i] &= room.known[i]


@ordered_inner
def widest(block, axis, task, low, high, room, i):
    """The coordinate to halve: by what its width adds to the products of gates and x, and by itself."""
    d, best, most = len(block.weight), -1, -1.0
    for k in range(d + 1):
        half = room.half[k, i]
        if k == axis or not half > 0 or (k == d and task != TOWARDS_ZERO):
            continue
        width, symbol = high[k] - low[k], (axis if k == d else k) + 1  # κ's stands where the axis' would
        bent = 0.0
        for p in range(len(block.h)):
            bent += abs(room.x[p, symbol, i]) * room.gate_reach[p, i]
            bent += abs(room.gate[p, symbol, i]) * room.x_reach[p, i]
        score = bent * width / (2 * half) + 0.2 * width * width
        if not score < INFINITE:
            score = width * 1e100
        if score > most:
            best, most = k, score
    return best


@ordered_inner
def take(room, stack, start, count, d):
    """Put waiting cells into the lanes of the room; the last one into those that are left over, too."""
    for i in range(LANES):
        place = start + min(i, count - 1)
        for k in range(d + 1):
            low, high = stack[place, 0, k], stack[place, 1, k]
            middle = (low + high) / 2
            half = max(high - middle, middle - low) * (1 + SLACK) + 1e-15 if high > low else 0.0
            room.middle[k, i], room.half[k, i] = middle, half


@ordered
def search(block, task, axis, low, high, out_low, out_high, limit, room, stack):
    """Halve a cell until every part of it is excluded or left out.

    ``low`` and ``high`` are the ends of v and, behind them, of κ; along the axis they are equal. ``out_low``
    and ``out_high`` are those of what is left out, of v alone: nothing if they stand the wrong way round.
    Returns how many cells were examined, and whether none was open in the end.
    """
    d = len(block.weight)
    for k in range(d + 1):
        stack[0, 0, k], stack[0, 1, k] = low[k], high[k]
    sign = low[axis]
    waiting, examined = 1, 0
    taken = room.taken
    while waiting > 0:
        if examined >= limit or waiting >= ROOM - LANES:
            return examined, False
        count = min(LANES, waiting, limit - examined)
        waiting -= count
        examined += count
        take(room, stack, waiting, count, d)
        examine(block, axis, sign, task, room)
        for i in range(count):
            for k in range(d + 1):
                taken[i, 0, k], taken[i, 1, k] = stack[waiting + i, 0, k], stack[waiting + i, 1, k]
        for i in range(count):
            if room.excluded[i]:
                continue
            left, right = taken[i, 0], taken[i, 1]
            inside = True
            for k in range(d):
                left[k], right[k] = max(left[k], room.low[k, i]), min(right[k], room.high[k, i])
                inside = inside and left[k] >= out_low[k] and right[k] <= out_high[k]
            if inside:
                continue
            k = widest(block, axis, task, left, right, room, i)
            cut = 0.5 * (left[k] + right[k])
            if k < 0 or not left[k] < cut < right[k]:
                return examined, False
            for m in range(d + 1):
                for place in (waiting, waiting + 1):
                    stack[place, 0, m], stack[place, 1, m] = left[m], right[m]
            stack[waiting, 1, k] = cut
            stack[waiting + 1, 0, k] = cut
            waiting += 2
    return examined, True
