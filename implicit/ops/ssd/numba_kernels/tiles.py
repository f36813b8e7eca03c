# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The recurrence of a part of the state that fits the registers, over all tokens, as LLVM vectors.

The part has `ROWS` rows of one register each. With a decay a, a vector u, and numbers b_r and c_r per token,

    H_r ← a H_r + b_r u        out ← out + Σ_r c_r H_r

which is the scan where u holds inputs and the rows are those of B and C, and each of its gradients where the
parts trade places or time runs backwards.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from implicit.ops.numba_shared.products import REGISTER_BYTES

ROWS = 8


def _recurrence(*, keep: bool, meet: bool):
    """An intrinsic; it may keep every H from before a token, or add Σ_r H_r · kept_r to ``met`` per token."""

    @intrinsic
    def tile(
        _context,
        tokens,
        forward,
        decays,
        vectors,
        vector_stride,
        inside,
        outside,
        row_stride,
        out,
        state,
        state_stride,
        kept,
        met,
    ):
        element = vectors.dtype
        single = element == types.float32
        number, size = (ir.FloatType() if single else ir.DoubleType()), ir.IntType(64)
        bytes_of = 4 if single else 8
        width = REGISTER_BYTES // bytes_of
        vector = ir.VectorType(number, width)

        def build(_context, builder, _signature, arguments):
            (
                tokens,
                forward,
                decays,
                vectors,
                vector_stride,
                inside,
                outside,
                row_stride,
                out,
                state,
                state_stride,
                kept,
                met,
            ) = arguments
            whole = lambda n: ir.Constant(size, n)  # noqa: E731

            def place(base, offset):
                return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())

            def load(base, offset):
                loaded = builder.load(place(base, offset))
                loaded.align = bytes_of
                return loaded

            def store(value, base, offset):
                builder.store(value, place(base, offset)).align = bytes_of

            def spread(base, offset):
                scalar = builder.load(builder.gep(base, [offset]))
                undefined = ir.Constant(vector, ir.Undefined)
                first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
                return builder.shuffle_vector(first, undefined, zeros)

            multiply_add = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * 3),
                f"llvm.fmuladd.v{width}f{8 * bytes_of}",
            )
            places = [builder.mul(state_stride, whole(r)) for r in range(ROWS)]
            began = [load(state, offset) for offset in places]
            last = builder.sub(tokens, whole(1))
            start = builder.select(forward, whole(0), last)
            step = builder.select(forward, whole(1), whole(-1))
            before = builder.block
            loop, after = builder.append_basic_block("tokens"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            count, t = builder.phi(size), builder.phi(size)
            count.add_incoming(whole(0), before)
            t.add_incoming(start, before)
            rows = [builder.phi(vector) for _ in range(ROWS)]
            for row, first in zip(rows, began, strict=True):
                row.add_incoming(first, before)
            decay = spread(decays, t)
            u_place, row_place = builder.mul(vector_stride, t), builder.mul(row_stride, t)
            u, total = load(vectors, u_place), load(out, u_place)
            memory = builder.mul(t, whole(ROWS * width))
            following, common = [], None
            for r, row in enumerate(rows):
                own = builder.add(row_place, whole(r))
                here = builder.add(memory, whole(r * width))
                if keep:
                    store(row, kept, here)
                b, c = spread(inside, own), spread(outside, own)
                new = builder.call(multiply_add, [b, u, builder.fmul(decay, row)])
                total = builder.call(multiply_add, [c, new, total])
                if meet:
                    old = load(kept, here)
                    common = (
                        builder.fmul(new, old)
                        if common is None
                        else builder.call(multiply_add, [new, old, common])
                    )
                following.append(new)
            store(total, out, u_place)
            if meet:
                here = builder.mul(t, whole(width))
                store(builder.fadd(load(met, here), common), met, here)
            next_count = builder.add(count, whole(1))
            count.add_incoming(next_count, builder.block)
            t.add_incoming(builder.add(t, step), builder.block)
            for row, new in zip(rows, following, strict=True):
                row.add_incoming(new, builder.block)
            builder.cbranch(builder.icmp_signed("<", next_count, tokens), loop, after)
            builder.position_at_end(after)
            for offset, new in zip(places, following, strict=True):
                store(new, state, offset)

        pointer, int64 = types.CPointer(element), types.int64
        return (
            types.void(
                int64,
                types.boolean,
                pointer,
                pointer,
                int64,
                pointer,
                pointer,
                int64,
                pointer,
                pointer,
                int64,
                pointer,
                pointer,
            ),
            build,
        )

    return tile


run_tile = _recurrence(keep=False, meet=False)
run_tile_keeping = _recurrence(keep=True, meet=False)
run_tile_meeting = _recurrence(keep=False, meet=True)
