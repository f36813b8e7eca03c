# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""σ tⱼ = t_axis vⱼ for every j but the axis, on `LANES` cells of directions: have they a common zero?"""

import numpy as np

from implicit.enclosed.numba_cells.forms import INFINITE, LANES, SLACK, fill, reach, times_coordinate
from implicit.ops.numba_shared.jit import ordered_inner

MARGIN = 1e-9
"""By how much the ends of a tightened cell are moved outwards."""


@ordered_inner
def equations(axis, sign, room, d):
    """Find the equations, and exclude the cells on which one of them has no zero."""
    main, product, last = room.stream[axis], room.product, d + 1
    far, near, r = room.rows[0], room.rows[1], room.rows[2]
    reach(main, far)
    row = 0
    for j in range(d):
        if j == axis:
            continue
        found = room.equation[row]
        times_coordinate(room.middle[j], room.half[j], j + 1, main, far, product)
        reach(product, near)
        reach(room.stream[j], r)
        for k in range(last):
            for i in range(LANES):
                found[k, i] = sign * room.stream[j, k, i] - product[k, i]
        for i in range(LANES):
            size = abs(room.stream[j, 0, i]) + r[i] + abs(product[0, i]) + near[i]
            # κ is no unknown: its part, which stands at the axis, is an error
            found[last, i] = room.stream[j, last, i] + product[last, i] + SLACK * size
            found[last, i] += abs(found[axis + 1, i])
            found[axis + 1, i] = 0.0
        reach(found, r)
        for i in range(LANES):
            room.excluded[i] |= abs(found[0, i]) > r[i]
            room.equation_size[row, i] = abs(found[0, i]) + r[i]
        row += 1


@ordered_inner
def separated(room, rows):
    """Exclude the cells on which the sum of the equations, with their centres as weights, has no zero."""
    scale, unit, size, r = room.rows[0], room.rows[1], room.rows[2], room.rows[3]
    found, last = room.product, len(room.product) - 1
    fill(scale, 0.0)
    fill(size, 0.0)
    for k in range(last + 1):
        fill(found[k], 0.0)
    for j in range(rows):
        for i in range(LANES):
            scale[i] += room.equation[j, 0, i] * room.equation[j, 0, i]
    for i in range(LANES):
        scale[i] = (1 - SLACK) / np.sqrt(scale[i])
    for j in range(rows):
        for i in range(LANES):
            unit[i] = room.equation[j, 0, i] * scale[i]
        for k in range(last):
            for i in range(LANES):
                found[k, i] += unit[i] * room.equation[j, k, i]
        for i in range(LANES):
            found[last, i] += abs(unit[i]) * room.equation[j, last, i]
            size[i] += abs(unit[i]) * room.equation_size[j, i]
    reach(found, r)
    for i in range(LANES):
        room.excluded[i] |= found[0, i] - r[i] - SLACK * size[i] > 0


@ordered_inner
def newton(axis, room, rows, d):
    """Tighten the cells by the solution of the linear part, and exclude those that it lies outside of.

    ξ = −B c − (B A − I) ξ − B e for any matrix B; here one that is computed as the inverse of A.
    """
    invert(axis, room, rows, d)
    inverse, middle, half = room.inverse, room.middle, room.half
    centre, error, size, entry = room.rows[0], room.rows[1], room.rows[2], room.rows[3]
    place = 0
    for k in range(d):
        if k == axis:
            continue
        fill(centre, 0.0)
        fill(error, 0.0)
        fill(size, 0.0)
        for j in range(rows):
            for i in range(LANES):
                weight = inverse[place, j, i]
                centre[i] -= weight * room.equation[j, 0, i]
                error[i] += abs(weight) * room.equation[j, d + 1, i]
                size[i] += abs(weight) * room.equation_size[j, i]
        column = 0
        for m in range(d):
            if m == axis:
                continue
            fill(entry, -1.0 if column == place else 0.0)
            for j in range(rows):
                for i in range(LANES):
                    entry[i] += inverse[place, j, i] * room.equation[j, m + 1, i]
            for i in range(LANES):
                error[i] += abs(entry[i])
            column += 1
        for i in range(LANES):
            off = error[i] * (1 + SLACK) + SLACK * (size[i] + 1)
            low, high = centre[i] - off, centre[i] + off
            known = off < INFINITE  # of NaN it is false
            room.excluded[i] |= known and (low > 1 or high < -1)
            start, stop = middle[k, i] + half[k, i] * low - MARGIN, middle[k, i] + half[k, i] * high + MARGIN
            if known and start > room.low[k, i]:
                room.low[k, i] = start
            if known and stop < room.high[k, i]:
                room.high[k, i] = stop
        place += 1


@ordered_inner
def invert(axis, room, rows, d):
    """An approximate inverse of the linear part, by elimination without pivoting; any would do."""
    work, inverse, factor = room.matrix, room.inverse, room.rows[0]
    for j in range(rows):
        column = 0
        for m in range(d):
            if m == axis:
                continue
            for i in range(LANES):
                work[j, column, i] = room.equation[j, m + 1, i]
            column += 1
        for m in range(rows):
            fill(inverse[j, m], 1.0 if m == j else 0.0)
    for step in range(rows):
        for i in range(LANES):
            factor[i] = 1 / work[step, step, i]
        for m in range(step, rows):
            for i in range(LANES):
                work[step, m, i] *= factor[i]
        for m in range(step + 1):
            for i in range(LANES):
                inverse[step, m, i] *= factor[i]
        for j in range(rows):
            if j == step:
                continue
            for i in range(LANES):
                factor[i] = work[j, step, i]
            for m in range(step, rows):
                for i in range(LANES):
                    work[j, m, i] -= factor[i] * work[step, m, i]
            for m in range(step + 1):
                for i in range(LANES):
                    inverse[j, m, i] -= factor[i] * inverse[step, m, i]
