# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Products of a matrix with a few vectors, for matrices that stay in the cache of a core.

A matrix is packed into panels of as many rows as a register holds numbers, ``[panels, columns, lanes]``. The
loops over the columns are written as LLVM's vectors, with the sums in registers: a tile of some vectors by
some panels. Every sum goes over the columns in their order, whatever the tile: a result does not depend on
what is computed beside it.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from implicit.ops.numba_shared.jit import compiled
from implicit.ops.numba_shared.views import address


def _register_bytes() -> int:
    """The widest vectors of this processor."""
    features = llvmlite.binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


REGISTER_BYTES = _register_bytes()


def lanes(dtype) -> int:
    """Numbers in a register."""
    return REGISTER_BYTES // np.dtype(dtype).itemsize


def padded(rows: int, dtype) -> int:
    """Rows of the packed matrix: whole panels."""
    return -(-rows // lanes(dtype)) * lanes(dtype)


def pack(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix [..., rows, columns] as panels [..., panels, columns, lanes], with zeros at the end."""
    *leading, rows, columns = matrix.shape
    width = lanes(matrix.dtype)
    panels = -(-rows // width)
    full = np.zeros((*leading, panels * width, columns), matrix.dtype)
    full[..., :rows, :] = matrix
    return np.ascontiguousarray(full.reshape(*leading, panels, width, columns).swapaxes(-1, -2))


def _tile(vectors: int, panels: int):
    """An intrinsic that adds to ``out[v, p]`` the products of some panels with some vectors."""

    @intrinsic
    def tile(_context, matrix, panel_stride, columns, values, value_stride, out, out_stride):
        element = matrix.dtype
        number = ir.FloatType() if element == types.float32 else ir.DoubleType()
        width = REGISTER_BYTES // (4 if element == types.float32 else 8)
        vector, size = ir.VectorType(number, width), ir.IntType(64)

        def build(_context, builder, _signature, arguments):
            matrix, panel_stride, columns, values, value_stride, out, out_stride = arguments
            whole = lambda n: ir.Constant(size, n)  # noqa: E731
            at = lambda base, offset: builder.gep(base, [offset])  # noqa: E731

            def load(base, offset):
                place = builder.bitcast(at(base, offset), vector.as_pointer())
                loaded = builder.load(place)
                loaded.align = number_bytes
                return loaded

            number_bytes = 4 if element == types.float32 else 8
            places = [
                [builder.add(builder.mul(out_stride, whole(v)), whole(p * width)) for p in range(panels)]
                for v in range(vectors)
            ]
            began = [[load(out, place) for place in row] for row in places]
            before = builder.block
            loop = builder.append_basic_block("columns")
            after = builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            column = builder.phi(size)
            column.add_incoming(whole(0), before)
            sums = [[builder.phi(vector) for _ in range(panels)] for _ in range(vectors)]
            for row, first in zip(sums, began, strict=True):
                for total, value in zip(row, first, strict=True):
                    total.add_incoming(value, before)
            multiply_add = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * 3),
                f"llvm.fmuladd.v{width}f{8 * number_bytes}",
            )
            weights = [
                load(
                    matrix,
                    builder.add(builder.mul(column, whole(width)), builder.mul(panel_stride, whole(p))),
                )
                for p in range(panels)
            ]
            following = []
            undefined = ir.Constant(vector, ir.Undefined)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
            for v in range(vectors):
                scalar = builder.load(at(values, builder.add(builder.mul(value_stride, whole(v)), column)))
                spread = builder.shuffle_vector(
                    builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0)),
                    undefined,
                    zeros,
                )
                following.append(
                    [
                        builder.call(multiply_add, [spread, weight, total])
                        for weight, total in zip(weights, sums[v], strict=True)
                    ]
                )
            next_column = builder.add(column, whole(1))
            column.add_incoming(next_column, builder.block)
            for row, new in zip(sums, following, strict=True):
                for total, value in zip(row, new, strict=True):
                    total.add_incoming(value, builder.block)
            builder.cbranch(builder.icmp_signed("<", next_column, columns), loop, after)
            builder.position_at_end(after)
            for row, new in zip(places, following, strict=True):
                for place, value in zip(row, new, strict=True):
                    target = builder.bitcast(at(out, place), vector.as_pointer())
                    stored = builder.store(value, target)
                    stored.align = number_bytes

        pointer = types.CPointer(element)
        int64 = types.int64
        return (
            types.void(pointer, int64, int64, pointer, int64, pointer, int64),
            build,
        )

    return tile


_WIDE = REGISTER_BYTES == 64  # 32 registers, otherwise 16
_EIGHT, _FOUR, _TWO, _ONE = (2, 4, 8, 8) if _WIDE else (1, 2, 4, 8)
"""Panels that are multiplied together with so many vectors: as many sums as the registers hold."""
_eight, _eight_rest = _tile(8, _EIGHT), _tile(8, 1)
_four, _four_rest = _tile(4, _FOUR), _tile(4, 1)
_two, _two_rest = _tile(2, _TWO), _tile(2, 1)
_one, _one_rest = _tile(1, _ONE), _tile(1, 1)
MOST_VECTORS = 8


@compiled
def add_products(packed, matrix, values, first, out, out_first, count):
    """Add W v to up to eight vectors, rows of ``out`` from ``out_first`` on; rows up to 1, 2, 4 or 8 change.

    Args:
        packed: matrices from `pack`, ``[matrices, panels, columns, lanes]``.
        matrix: which of them.
        values: v, ``[vectors, columns]``.
        first: the first of the vectors.
        out: ``[vectors, padded rows]``.
        out_first: its first row.
        count: vectors.
    """
    panels, columns, width = packed.shape[1], packed.shape[2], packed.shape[3]
    stride, value_stride, out_stride = columns * width, values.shape[1], out.shape[1]
    base = matrix * panels * stride
    value, target = first * value_stride, out_first * out_stride
    panel = 0
    if count == 1:
        while panel < panels:
            w, o = address(packed, base + panel * stride), address(out, target + panel * width)
            if panel + _ONE <= panels:
                _one(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += _ONE
            else:
                _one_rest(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += 1
    elif count == 2:
        while panel < panels:
            w, o = address(packed, base + panel * stride), address(out, target + panel * width)
            if panel + _TWO <= panels:
                _two(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += _TWO
            else:
                _two_rest(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += 1
    elif count <= 4:
        while panel < panels:
            w, o = address(packed, base + panel * stride), address(out, target + panel * width)
            if panel + _FOUR <= panels:
                _four(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += _FOUR
            else:
                _four_rest(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += 1
    else:
        while panel < panels:
            w, o = address(packed, base + panel * stride), address(out, target + panel * width)
            if panel + _EIGHT <= panels:
                _eight(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += _EIGHT
            else:
                _eight_rest(w, stride, columns, address(values, value), value_stride, o, out_stride)
                panel += 1
