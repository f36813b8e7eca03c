# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""σ tⱼ = t_axis vⱼ for every j but the axis, on `LANES` cells of directions: have they a common zero?"""

import numpy as np

from implicit.enclosed.numba_cells.forms import INFINITE, LANES, SLACK, fill, reach, times_coordinate
from implicit.ops.numba_shared.jit import ordered_inner

MARGIN = 1e-9
"""By how much the ends of a tightened cell are moved outwards."""


@ordered_inner
def equations(block, axis, sign, room, d):
    """Find the equations, and exclude the cells on which t_axis has the wrong sign or one has no zero.

    With t = w (W v + ρ z ν) and z a multiple of v, z_axis being that of σ,

        σ tⱼ − t_axis vⱼ = σ wⱼ (W v)ⱼ − vⱼ w_axis (W v)_axis + σ (wⱼ − w_axis) ρ zⱼ ν ,

    so that of ρ, which lies within ``lost`` of 1, only the difference of two weights is left.
    """
    main, product, last = room.moved, room.product, d + 1
    far, near, r, keep = room.rows[0], room.rows[1], room.rows[2], room.rows[3]
    weight = block.weight[axis]
    for i in range(LANES):
        keep[i] = 1 - room.lost[i] / 2
    reach(room.stream[axis], r)
    for k in range(last + 1):
        for i in range(LANES):
            main[k, i] = weight * room.mixed[axis, k, i]
            product[k, i] = main[k, i] + weight * keep[i] * room.stream[axis, k, i]
    for i in range(LANES):
        size = abs(weight) * (abs(room.stream[axis, 0, i]) + r[i])
        off = abs(weight) * room.mixed[axis, last, i]
        main[last, i] = off + SLACK * abs(weight) * room.away[axis, i]
        product[last, i] = off + abs(weight) * keep[i] * room.stream[axis, last, i]
        product[last, i] += size * room.lost[i] / 2
        product[last, i] += SLACK * (size + abs(weight) * room.away[axis, i])
    reach(product, r)
    for i in range(LANES):
        room.excluded[i] = sign * product[0, i] + r[i] < 0
    reach(main, far)
    row = 0
    for j in range(d):
        if j == axis:
            continue
        found, own, between = room.equation[row], block.weight[j], sign * (block.weight[j] - weight)
        times_coordinate(room.middle[j], room.half[j], j + 1, main, far, product)
        reach(product, near)
        reach(room.stream[j], r)
        for k in range(last):
            for i in range(LANES):
                found[k, i] = sign * own * room.mixed[j, k, i] - product[k, i]
                found[k, i] += between * keep[i] * room.stream[j, k, i]
        for i in range(LANES):
            stream = abs(between) * (abs(room.stream[j, 0, i]) + r[i])
            size = abs(own) * room.away[j, i] + stream + abs(product[0, i]) + near[i]
            off = abs(between) * keep[i] * room.stream[j, last, i] + stream * room.lost[i] / 2
            # κ is no unknown: its part, which stands at the axis, is an error
            off += abs(found[axis + 1, i])
            found[last, i] = abs(own) * room.mixed[j, last, i] + product[last, i] + off + SLACK * size
            found[axis + 1, i] = 0.0
        reach(found, r)
        for i in range(LANES):
            room.excluded[i] |= abs(found[0, i]) > r[i]
            room.equation_size[row, i] = abs(found[0, i]) + r[i]
        row += 1


@ordered_inner
def towards_zero(block, axis, sign, room, d):
    """Exclude the cells on which no latent of κ, so short that the norm's ε counts, is a fixed point.

    Of κ at most k, |z| ≤ (d ε)^½ k / (1 − k²)^½ =: m, and as y = z / w, ρ² ≤ m² / (d min w²) =: q, so that
    N² = ε / (1 − ρ²) ≤ ε / (1 − q). With z = r v, r ≤ m, and s = N z / w, what the block adds is

        uⱼ = sⱼ − zⱼ = r vⱼ (N / wⱼ − 1) ,     |u| ≤ m + (d ε q / (1 − q))^½ ,
        σ uⱼ − u_axis vⱼ = r σ vⱼ N (1 / wⱼ − 1 / w_axis) ,     σ u_axis ≤ 0 where N < |w_axis| .

    The forms of u ν stand in the room's ``mixed``, a bound of |u ν| from below in its ``near``.
    """
    main, product, found, last = room.mixed[axis], room.product, room.linear, d + 1
    far, r, most, norm, moved = room.rows[0], room.rows[1], room.rows[2], room.rows[3], room.rows[4]
    weight = block.weight[axis]
    reach(main, far)
    for i in range(LANES):
        above = (room.nu[0, i] + room.above[i]) * (1 + SLACK)
        k = room.middle[d, i] + room.half[d, i]
        moved[i] = np.sqrt(d * block.epsilon) * k / np.sqrt((1 - k) * (1 + k)) * (1 + SLACK)
        q = moved[i] * moved[i] / (d * block.least * block.least) * (1 + SLACK)
        norm[i] = np.sqrt(block.epsilon / (1 - q)) * (1 + SLACK) if q < 1 else np.inf
        most[i] = moved[i] + np.sqrt(d * q) * norm[i] * (1 + SLACK)
        room.excluded[i] = room.near[i] > most[i] * above * (1 + SLACK)
        side = sign * main[0, i] - far[i] * (1 + SLACK) - SLACK * abs(main[0, i])
        room.excluded[i] |= norm[i] < abs(weight) and side > 0
        moved[i] *= norm[i] * above * (1 + SLACK)
    for j in range(d):
        if j == axis:
            continue
        between = abs(1 / block.weight[j] - 1 / weight)
        between += SLACK * (abs(1 / block.weight[j]) + abs(1 / weight))
        times_coordinate(room.middle[j], room.half[j], j + 1, main, far, product)
        for k in range(last):
            for i in range(LANES):
                found[k, i] = sign * room.mixed[j, k, i] - product[k, i]
        for i in range(LANES):
            size = room.away[j, i] + room.away[axis, i] * (abs(room.middle[j, i]) + room.half[j, i])
            found[last, i] = room.mixed[j, last, i] + product[last, i] + 2 * SLACK * size
            widest = abs(room.middle[j, i]) + room.half[j, i]
            found[last, i] += moved[i] * widest * between * (1 + SLACK)
        reach(found, r)
        for i in range(LANES):
            room.excluded[i] |= abs(found[0, i]) > r[i]
    for i in range(LANES):
        room.excluded[i] &= room.known[i]


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
            known = room.known[i] and off < INFINITE  # of NaN it is false
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
