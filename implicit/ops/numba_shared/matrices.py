# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Products and transposes of small matrices that lie in the cache of a core, as loops.

The loop along the rows of the right factor is innermost, so that it is vectorised, and takes four terms of
every sum, in their order: with more arrays, LLVM would not check that they do not overlap. Matrices are
filled up with zeros, columns to a multiple of `lanes` and rows to one of `TILE_ROWS`.

Numba lets ``array[i, j + k]`` count from the end where the sum is negative, and a loop over k is not
vectorised for that. A view begins at its entry 0, so ``for k in range(n)`` over views is.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from implicit.ops.numba_shared.functions import one_like
from implicit.ops.numba_shared.jit import inner, ordered, ordered_inner


@intrinsic
def view(_context, array, offset, count):
    """``count`` consecutive entries of a contiguous array from an offset on, counted in entries.

    The array has to outlive the view: nothing else keeps its memory.
    """
    flat = types.Array(array.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        return _view(context, builder, flat, given, arguments[1], arguments[2])

    return flat(array, types.int64, types.int64), build


@intrinsic
def row_of(_context, array, row):
    """A row of a contiguous matrix, or of an array whose leading axes are counted through."""
    flat = types.Array(array.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = cgutils.unpack_tuple(builder, given.shape)[-1]
        return _view(context, builder, flat, given, builder.mul(arguments[1], width), width)

    return flat(array, types.int64), build


def _view(context, builder, flat, given, offset, count):
    made = context.make_array(flat)(context, builder)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(flat.dtype)))
    context.populate_array(
        made,
        data=builder.gep(given.data, [offset]),
        shape=cgutils.pack_array(builder, [count]),
        strides=cgutils.pack_array(builder, [itemsize]),
        itemsize=itemsize,
        meminfo=None,
    )
    return made._getvalue()


LINE = 64
"""Bytes of a line of the cache, and of the widest registers."""
TILE_ROWS = 8
MOST_VECTORS = 8
"""Most vectors that `add_products` is given at a time."""


def lanes(dtype) -> int:
    """Return the numbers in a line of the cache."""
    return LINE // np.dtype(dtype).itemsize


def padded(rows: int, dtype) -> int:
    """Return the rows of a packed matrix: whole lines."""
    return -(-rows // lanes(dtype)) * lanes(dtype)


def pack(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix [..., rows, columns] column by column, with zeros at their ends."""
    *leading, rows, columns = matrix.shape
    columns_first = np.zeros((*leading, columns, padded(rows, matrix.dtype)), matrix.dtype)
    columns_first[..., :rows] = matrix.swapaxes(-1, -2)
    return columns_first


@ordered
def add_products(packed, matrix, values, first, out, out_first, count):
    """Add W v to ``count`` rows of ``out`` from ``out_first`` on; W is one of the matrices from `pack`."""
    columns, rows = packed.shape[1], packed.shape[2]
    base, from_value, from_out = matrix * columns * rows, values.shape[1], out.shape[1]
    whole = columns - columns % 4
    for c in range(0, whole, 4):
        w0, w1 = view(packed, base + c * rows, rows), view(packed, base + (c + 1) * rows, rows)
        w2, w3 = view(packed, base + (c + 2) * rows, rows), view(packed, base + (c + 3) * rows, rows)
        for v in range(count):
            x, o = view(values, (first + v) * from_value + c, 4), view(out, (out_first + v) * from_out, rows)
            x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
            for r in range(rows):
                o[r] = o[r] + x0 * w0[r] + x1 * w1[r] + x2 * w2[r] + x3 * w3[r]
    for c in range(whole, columns):
        w0 = view(packed, base + c * rows, rows)
        for v in range(count):
            x0, o = values[first + v, c], view(out, (out_first + v) * from_out, rows)
            for r in range(rows):
                o[r] = o[r] + x0 * w0[r]


class Matrix(NamedTuple):
    """A matrix in flat memory: where it begins, and the entries from a row to the next."""

    memory: np.ndarray
    first: int
    row: int


@inner
def multiply(rows, columns, inner, left, left_inner, right, scale, out):
    """Write left right + scale out into ``out``, all `Matrix`; at scale 0 whatever it held.

    The ``inner`` terms of a sum are ``left_inner`` entries apart in the left factor: 1 for a row, its ``row``
    1 for a column.
    """
    _multiply(rows, columns, inner, 0, left, left_inner, right, scale, out)


@inner
def add_triangular(rows, columns, left, right, out):
    """Add left right to ``out``; ``left`` is not read above its diagonal, so that no later row counts."""
    _multiply(rows, columns, 0, 1, left, 1, right, one_like(out.memory), out)


@ordered_inner
def _multiply(rows, columns, inner, triangular, left, left_inner, right, scale, out):
    """`multiply`; with ``triangular`` 1, a row has as many terms more as there are up to the diagonal."""
    for row in range(rows):
        o = view(out.memory, out.first + row * out.row, columns)
        if scale == 0:
            for j in range(columns):
                o[j] = 0
        elif scale != 1:
            for j in range(columns):
                o[j] = scale * o[j]
        terms = inner + triangular * (row + 1)
        own, whole = left.first + row * left.row, terms - terms % 4
        for k in range(0, whole, 4):
            x = view(left.memory, own + k * left_inner, 3 * left_inner + 1)
            x0, x1, x2, x3 = x[0], x[left_inner], x[2 * left_inner], x[3 * left_inner]
            r0 = view(right.memory, right.first + k * right.row, columns)
            r1 = view(right.memory, right.first + (k + 1) * right.row, columns)
            r2 = view(right.memory, right.first + (k + 2) * right.row, columns)
            r3 = view(right.memory, right.first + (k + 3) * right.row, columns)
            for j in range(columns):
                o[j] = o[j] + x0 * r0[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j]
        for k in range(whole, terms):
            x0 = view(left.memory, own + k * left_inner, 1)[0]
            r0 = view(right.memory, right.first + k * right.row, columns)
            for j in range(columns):
                o[j] = o[j] + x0 * r0[j]


@inner
def transpose(rows, columns, matrix, out):
    """Write the transpose of a `Matrix`."""
    for row in range(rows):
        given = view(matrix.memory, matrix.first + row * matrix.row, columns)
        turned = view(out.memory, out.first + row, columns * out.row)
        for column in range(columns):
            turned[column * out.row] = given[column]


@inner
def scale_rows(rows, columns, matrix, factors, out):
    """Write the rows of a `Matrix`, each times its factor, into another of the same memory."""
    for row in range(rows):
        factor = factors[row]
        given = view(matrix.memory, matrix.first + row * matrix.row, columns)
        scaled = view(out.memory, out.first + row * out.row, columns)
        for i in range(columns):
            scaled[i] = factor * given[i]


@inner
def copy_rows(rows, columns, matrix, out):
    """Copy a `Matrix`."""
    for row in range(rows):
        given = view(matrix.memory, matrix.first + row * matrix.row, columns)
        copied = view(out.memory, out.first + row * out.row, columns)
        for i in range(columns):
            copied[i] = given[i]


@inner
def clear_rows(first, rows, columns, matrix):
    """Write zeros into the rows from ``first`` to ``rows − 1``."""
    for row in range(first, rows):
        cleared = view(matrix.memory, matrix.first + row * matrix.row, columns)
        for i in range(columns):
            cleared[i] = 0


def memory(entries: int, dtype) -> np.ndarray:
    """Return zeros that begin with a line of the cache, so that no register is loaded from two."""
    itemsize = np.dtype(dtype).itemsize
    room = np.zeros(entries + 64 // itemsize, dtype)
    skipped = -room.ctypes.data % 64 // itemsize
    return room[skipped : skipped + entries]
