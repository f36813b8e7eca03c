# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Consecutive entries of a contiguous array, without bounds, negative indices or a count of references.

Numba lets ``array[i, j + k]`` count from the end where the sum is negative, and a loop over k is not
vectorised for that. A view begins at its entry 0, so ``for k in range(n)`` over views is.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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
