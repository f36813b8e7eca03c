# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Products and transposes of small matrices that lie in the cache of a core, as LLVM vectors.

A tile of a product is some rows by some registers, with its sums in registers while the inner index runs. The
left factor is read one number at a time, so that it may lie in either order; the right one a register at a
time, along its rows. Rows and columns are whole tiles: matrices are filled up, rows to a multiple of `UNIT`
and columns to one of `unit`.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from implicit.ops.numba_shared.functions import one_like
from implicit.ops.numba_shared.jit import inner
from implicit.ops.numba_shared.products import REGISTER_BYTES
from implicit.ops.numba_shared.views import address, view

_WIDE = REGISTER_BYTES == 64  # 32 registers, otherwise 16
TILE_ROWS = 8 if _WIDE else 4
"""Rows of a tile: with two registers each, half of what the processor has."""
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def unit(dtype) -> int:
    """What the sizes of matrices are multiples of: rows of a tile, and numbers of a register.

    Example:
        >>> unit(np.float64) % TILE_ROWS
        0
    """
    return max(REGISTER_BYTES // np.dtype(dtype).itemsize, TILE_ROWS)


def _vector_of(element):
    """LLVM's vector of an element type of numba, the numbers in it, and the bytes of one."""
    single = element == types.float32
    width = REGISTER_BYTES // (4 if single else 8)
    return ir.VectorType(ir.FloatType() if single else ir.DoubleType(), width), width, 4 if single else 8


def _load(builder, vector, base, offset, size):
    place = builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())
    loaded = builder.load(place)
    loaded.align = size
    return loaded


def _store(builder, value, base, offset, size):
    place = builder.bitcast(builder.gep(base, [offset]), value.type.as_pointer())
    builder.store(value, place).align = size


def _spread(builder, vector, scalar):
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_INT32, 0))
    zeros = ir.Constant(ir.VectorType(_INT32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, zeros)


def _function(builder, name, kinds, body):
    """A function of the module, built once: copies at every call would take seconds to compile."""
    module = builder.module
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    inside = ir.IRBuilder(function.append_basic_block("entry"))
    body(inside, function.args)
    inside.ret_void()
    return function


def _product_tile(registers: int):
    """An intrinsic: a tile of the product, `TILE_ROWS` by some registers, plus ``scale`` times ``out``.

    With ``triangular`` 1 and not 0, row r has ``inner`` terms, which may be none, and the r + 1 that follow:
    entries of the left factor that stand further right are not read, so that no NaN passes by a 0 of them.
    """

    @intrinsic
    def tile(
        _context, inner, triangular, left, left_row, left_inner, right, right_inner, scale, out, out_row
    ):
        vector, width, size = _vector_of(left.dtype)

        def body(builder, arguments):
            inner, triangular, left, left_row, left_inner, right, right_inner, scale, out, out_row = arguments
            whole = lambda n: ir.Constant(_INT64, n)  # noqa: E731
            multiply_add = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * 3),
                f"llvm.fmuladd.v{width}f{8 * size}",
            )
            rows, columns = range(TILE_ROWS), range(registers)
            left_rows = [builder.mul(left_row, whole(r)) for r in rows]
            places = [
                [builder.add(builder.mul(out_row, whole(r)), whole(c * width)) for c in columns] for r in rows
            ]

            def one_of(sums, block, others, other):
                """The sums that the block before this one has found."""
                found = [[builder.phi(vector) for _ in columns] for _ in rows]
                for r in rows:
                    for c in columns:
                        found[r][c].add_incoming(sums[r][c], block)
                        found[r][c].add_incoming(others[r][c], other)
                return found

            zero = ir.Constant(vector, [ir.Constant(vector.element, 0.0)] * width)
            anew = builder.fcmp_ordered("==", scale, ir.Constant(vector.element, 0.0))
            factor = _spread(builder, vector, scale)
            # What is written anew is not read: the memory may hold anything.
            before = builder.block
            scaling = builder.append_basic_block("scaling")
            starting = builder.append_basic_block("starting")
            builder.cbranch(anew, starting, scaling)
            builder.position_at_end(scaling)
            scaled = [
                [builder.fmul(factor, _load(builder, vector, out, place, size)) for place in row]
                for row in places
            ]
            builder.branch(starting)
            builder.position_at_end(starting)
            began = one_of([[zero for _ in columns] for _ in rows], before, scaled, scaling)

            def add_term(k, first, sums):
                """The sums with term k; those of rows before the first as they are."""
                own_left, own_right = builder.mul(left_inner, k), builder.mul(right_inner, k)
                vectors = [
                    _load(builder, vector, right, builder.add(own_right, whole(c * width)), size)
                    for c in columns
                ]
                following = list(sums[:first])
                for r in rows[first:]:
                    scalar = builder.load(builder.gep(left, [builder.add(left_rows[r], own_left)]))
                    number = _spread(builder, vector, scalar)
                    following.append(
                        [builder.call(multiply_add, [number, vectors[c], sums[r][c]]) for c in columns]
                    )
                return following

            loop, summed, diagonal, done = map(
                builder.append_basic_block, ("inner", "summed", "diagonal", "done")
            )
            builder.cbranch(builder.icmp_signed(">", inner, whole(0)), loop, summed)
            builder.position_at_end(loop)
            k = builder.phi(_INT64)
            k.add_incoming(whole(0), starting)
            sums = [[builder.phi(vector) for _ in columns] for _ in rows]
            following = add_term(k, 0, sums)
            next_k = builder.add(k, whole(1))
            k.add_incoming(next_k, loop)
            for r in rows:
                for c in columns:
                    sums[r][c].add_incoming(began[r][c], starting)
                    sums[r][c].add_incoming(following[r][c], loop)
            builder.cbranch(builder.icmp_signed("<", next_k, inner), loop, summed)
            builder.position_at_end(summed)
            sums = one_of(began, starting, following, loop)
            builder.cbranch(builder.icmp_signed("==", triangular, whole(0)), done, diagonal)
            builder.position_at_end(diagonal)
            following = sums
            for term in rows:
                following = add_term(builder.add(inner, whole(term)), term, following)
            builder.branch(done)
            builder.position_at_end(done)
            sums = one_of(sums, summed, following, diagonal)
            for r in rows:
                for c in columns:
                    _store(builder, sums[r][c], out, places[r][c], size)

        def build(_context, builder, _signature, arguments):
            name = f"implicit_product_{TILE_ROWS}_{registers}_{8 * size}"
            kinds = [argument.type for argument in arguments]
            builder.call(_function(builder, name, kinds, body), arguments)

        pointer, int64 = types.CPointer(left.dtype), types.int64
        factors = (pointer, int64, int64, pointer, int64)
        return types.void(int64, int64, *factors, left.dtype, pointer, int64), build

    return tile


_two, _one = _product_tile(2), _product_tile(1)


@intrinsic
def _transpose_tile(_context, matrix, row, out, out_row):
    """Transpose a square of as many rows as a register holds numbers."""
    vector, width, size = _vector_of(matrix.dtype)

    def body(builder, arguments):
        matrix, row, out, out_row = arguments
        rows = [
            _load(builder, vector, matrix, builder.mul(row, ir.Constant(_INT64, r)), size)
            for r in range(width)
        ]
        mask = ir.VectorType(_INT32, width)
        distance = 1
        while distance < width:  # squares of this size change places across the diagonal
            upper = [j if not j & distance else width + j - distance for j in range(width)]
            lower = [j + distance if not j & distance else width + j for j in range(width)]
            for r in range(width):
                if not r & distance:
                    a, b = rows[r], rows[r + distance]
                    rows[r] = builder.shuffle_vector(a, b, ir.Constant(mask, upper))
                    rows[r + distance] = builder.shuffle_vector(a, b, ir.Constant(mask, lower))
            distance *= 2
        for r in range(width):
            _store(builder, rows[r], out, builder.mul(out_row, ir.Constant(_INT64, r)), size)

    def build(_context, builder, _signature, arguments):
        kinds = [argument.type for argument in arguments]
        builder.call(_function(builder, f"implicit_transpose_{8 * size}", kinds, body), arguments)

    pointer = types.CPointer(matrix.dtype)
    return types.void(pointer, types.int64, pointer, types.int64), build


class Matrix(NamedTuple):
    """A matrix in flat memory: where it begins, and the entries from a row to the next."""

    memory: np.ndarray
    first: int
    row: int


@inner
def multiply(rows, columns, inner, left, left_inner, right, scale, out, lanes):
    """Write left right + scale out into ``out``; where ``scale`` is 0, whatever it held.

    Args:
        rows: of the product, a multiple of `TILE_ROWS`.
        columns: of the product, a multiple of ``lanes``.
        inner: at least 1; terms of every sum.
        left: a `Matrix`; entries of a row, or with ``row`` 1 those of a column, are ``left_inner`` apart.
        left_inner: entries from a term to the next.
        right: a `Matrix`.
        scale: of the type of the entries.
        out: a `Matrix`.
        lanes: numbers of a register.
    """
    _multiply(rows, columns, inner, 0, left, left_inner, right, scale, out, lanes)


@inner
def _multiply(rows, columns, inner, triangular, left, left_inner, right, scale, out, lanes):
    """`multiply`; with ``triangular`` 1, a row has as many terms more as there are up to the diagonal."""
    for row in range(0, rows, TILE_ROWS):
        own = left.first + row * left.row
        column = 0
        while column < columns:
            given, place = right.first + column, out.first + row * out.row + column
            if column + 2 * lanes <= columns:
                _two(
                    inner + triangular * row,
                    triangular,
                    address(left.memory, own),
                    left.row,
                    left_inner,
                    address(right.memory, given),
                    right.row,
                    scale,
                    address(out.memory, place),
                    out.row,
                )
                column += 2 * lanes
            else:
                _one(
                    inner + triangular * row,
                    triangular,
                    address(left.memory, own),
                    left.row,
                    left_inner,
                    address(right.memory, given),
                    right.row,
                    scale,
                    address(out.memory, place),
                    out.row,
                )
                column += lanes


@inner
def add_triangular(rows, columns, left, right, out, lanes):
    """Add left right to ``out``, where ``left`` is square and what stands above its diagonal is not read.

    So a row of ``out`` depends on no later row of ``right``, be that infinite or NaN. Arguments as of
    `multiply`.
    """
    _multiply(rows, columns, 0, 1, left, 1, right, one_like(out.memory), out, lanes)


@inner
def transpose(rows, columns, matrix, out, lanes):
    """Write the transpose of a `Matrix`; both sizes are multiples of ``lanes``."""
    for row in range(0, rows, lanes):
        for column in range(0, columns, lanes):
            _transpose_tile(
                address(matrix.memory, matrix.first + row * matrix.row + column),
                matrix.row,
                address(out.memory, out.first + column * out.row + row),
                out.row,
            )


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
    """Return zeros that begin with a line of the cache, so that no register is loaded from two.

    Example:
        >>> memory(5, np.float32).ctypes.data % 64
        0
    """
    itemsize = np.dtype(dtype).itemsize
    room = np.zeros(entries + 64 // itemsize, dtype)
    skipped = -room.ctypes.data % 64 // itemsize
    return room[skipped : skipped + entries]
