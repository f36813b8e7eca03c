# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Affine forms c + Σ aₖ ξₖ ± e in the coordinates |ξₖ| ≤ 1 of a cell, of `LANES` cells at a time.

A form is a table ``[symbols, LANES]``: c first, then a, then e, each for all cells, so that the innermost
loop is over cells and the processor's vector instructions take several at once. The bounds are those of
`implicit.enclosed.affine`. A form is off by rounding as well: every sum here has fewer than 2⁶ terms, each of
fewer than 2⁵ roundings and functions of relative error 2⁻⁴⁴; `SLACK` times the sum of their sizes is added to
e. What overflows is infinite or NaN, as sums and products keep their order (`ordered_inner`), and no
comparison with these excludes a cell.

``spare`` are rows ``[6, LANES]`` that a function may write to.
"""

import numpy as np

from implicit.ops.numba_shared.jit import ordered_inner

INFINITE = 1e300
"""What has overflowed is larger, or NaN."""
LANES = 64
"""Cells that are examined together; with 64 all tables of eight features stay in a core's second cache."""

# Those of `implicit.enclosed.affine`, which a test compares; machine code holds them as constants.
SLACK = 2.0**-38
LEAST_BEND, MOST_BEND = -0.1, 0.5
SILU_TURN = 0.35
LEAST_SILU, LEAST_AT = -0.28, -1.27


@ordered_inner
def fill(row, value):
    """Write one value to all lanes."""
    for i in range(LANES):
        row[i] = value


@ordered_inner
def reach(form, found):
    """How far a form comes from its centre, at most."""
    last = len(form) - 1
    for i in range(LANES):
        found[i] = form[last, i]
    for k in range(1, last):
        for i in range(LANES):
            found[i] += abs(form[k, i])
    for i in range(LANES):
        found[i] *= 1 + SLACK


@ordered_inner
def times(left, right, near, far, spare, found):
    """The product, with the reach of both; of aₖ bₖ ξₖ², between 0 and aₖ bₖ, half belongs to the centre."""
    half, size, last = spare[0], spare[1], len(found) - 1
    fill(half, 0.0)
    fill(size, 0.0)
    for k in range(1, last):
        for i in range(LANES):
            square = left[k, i] * right[k, i]
            half[i] += square
            size[i] += abs(square)
            found[k, i] = left[k, i] * right[0, i] + right[k, i] * left[0, i]
    for i in range(LANES):
        error = near[i] * far[i] - size[i] / 2
        error += abs(left[0, i]) * right[last, i] + abs(right[0, i]) * left[last, i]
        found[0, i] = left[0, i] * right[0, i] + half[i] / 2
        found[last, i] = error + SLACK * (abs(left[0, i]) + near[i]) * (abs(right[0, i]) + far[i])


@ordered_inner
def times_coordinate(middle, half, place, right, far, found):
    """The product of the coordinate c + h ξₖ with a form of known reach."""
    last = len(found) - 1
    for k in range(1, last):
        for i in range(LANES):
            found[k, i] = right[k, i] * middle[i]
    for i in range(LANES):
        square = half[i] * right[place, i]
        found[place, i] += half[i] * right[0, i]
        found[0, i] = middle[i] * right[0, i] + square / 2
        error = half[i] * far[i] * (1 + SLACK) - abs(square) / 2 + abs(middle[i]) * right[last, i]
        found[last, i] = error + SLACK * (abs(middle[i]) + half[i]) * (abs(right[0, i]) + far[i])


@ordered_inner
def silu(x, r, spare, found):
    """X σ(x) by its second-order Taylor polynomial at c; ``r`` is the reach of x."""
    sigmoids, slopes, last = spare[0], spare[1], len(x) - 1
    for i in range(LANES):
        sigmoids[i] = 1 / (1 + np.exp(-x[0, i]))
    for i in range(LANES):
        c, sigma = x[0, i], sigmoids[i]
        slope = sigma * (1 + c * (1 - sigma))
        bend = sigma * (1 - sigma) * (2 - c * (2 * sigma - 1))
        most = min(max(bend + SILU_TURN * r[i] + SLACK, 0.0), MOST_BEND) * r[i] * r[i] / 2
        least = min(max(bend - SILU_TURN * r[i] - SLACK, LEAST_BEND), 0.0) * r[i] * r[i] / 2
        size = (abs(c) + 1) * (1 + 2 * r[i]) + r[i] * r[i]
        slopes[i] = slope
        found[0, i] = c * sigma + (most + least) / 2
        found[last, i] = x[last, i] * abs(slope) + (most - least) / 2 + SLACK * size
    for k in range(1, last):
        for i in range(LANES):
            found[k, i] = x[k, i] * slopes[i]


@ordered_inner
def inverse(middle, error, least, linear, spare, found):
    """1/x of a form x ≥ least > 0, from 1/x = 1/m − (x − m)/m² + (x − m)²/(m² x)."""
    spread, slopes, last = spare[0], spare[1], len(found) - 1
    for i in range(LANES):
        spread[i] = error[i]
    for k in range(1, last):
        for i in range(LANES):
            spread[i] += abs(linear[k, i])
    for i in range(LANES):
        off = spread[i] * (1 + SLACK)
        low = max(middle[i] - off, least)
        slope = 1 / (middle[i] * middle[i])
        rest = off * off * slope / low * (1 + SLACK)
        slopes[i] = slope
        found[0, i] = 1 / middle[i] + rest / 2
        found[last, i] = error[i] * slope + rest / 2 + SLACK * (1 / middle[i] + off * slope + rest)
    for k in range(1, last):
        for i in range(LANES):
            found[k, i] = -linear[k, i] * slopes[i]


@ordered_inner
def inverse_length(middle, half, scale, least, linear, spare, found):
    """1/|D v| for the box of v with a diagonal D: the length lies between its tangent and a parabola."""
    squares, bend, centre, error = spare[2], spare[3], spare[4], spare[5]
    fill(squares, 0.0)
    fill(bend, 0.0)
    for k in range(len(scale)):
        square = scale[k] * scale[k]
        for i in range(LANES):
            squares[i] += square * middle[k, i] * middle[k, i]
            bend[i] += square * half[k, i] * half[k, i]
    for i in range(LANES):
        length = np.sqrt(squares[i])
        bent = bend[i] * (1 + SLACK) / (2 * length)
        squares[i] = 1 / length
        centre[i] = length + bent / 2
        error[i] = bent / 2 + 4 * SLACK * (length + bent)
    for k in range(len(scale)):
        square = scale[k] * scale[k]
        for i in range(LANES):
            linear[k + 1, i] = square * middle[k, i] * half[k, i] * squares[i]
    inverse(centre, error, least, linear, spare, found)


@ordered_inner
def mapped(weights, forms, sizes, spare, found):
    """Σ wₚ formₚ; ``sizes`` are bounds of the forms."""
    size, last = spare[0], len(found) - 1
    fill(size, 0.0)
    for k in range(last + 1):
        fill(found[k], 0.0)
    for p in range(len(weights)):
        weight, absolute = weights[p], abs(weights[p])
        for k in range(last):
            for i in range(LANES):
                found[k, i] += weight * forms[p, k, i]
        for i in range(LANES):
            size[i] += absolute * sizes[p, i]
            found[last, i] += absolute * forms[p, last, i]
    for i in range(LANES):
        found[last, i] = found[last, i] * (1 + SLACK) + SLACK * size[i]
