# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Loads and stores of tiles that end at the edge of a matrix, as functions that run inside kernels."""

import triton
import triton.language as tl


@triton.jit
def load_rows(start, stride, rows, row_count, columns, WIDTH: tl.constexpr):
    """Load the tile [rows, columns] of a matrix whose rows are packed and ``stride`` apart; zero outside."""
    inside = (rows[:, None] < row_count) & (columns[None, :] < WIDTH)
    return tl.load(start + (rows[:, None] * stride + columns[None, :]), mask=inside, other=0.0)


@triton.jit
def load_columns(start, stride, rows, row_count, columns, WIDTH: tl.constexpr):
    """Load the transposed tile [columns, rows] of the same matrix."""
    inside = (columns[:, None] < WIDTH) & (rows[None, :] < row_count)
    return tl.load(start + (rows[None, :] * stride + columns[:, None]), mask=inside, other=0.0)


@triton.jit
def store_rows(start, stride, rows, row_count, columns, WIDTH: tl.constexpr, tile):
    """Store the tile [rows, columns] in the element type of the pointer; nothing outside."""
    inside = (rows[:, None] < row_count) & (columns[None, :] < WIDTH)
    tl.store(
        start + (rows[:, None] * stride + columns[None, :]), tile.to(start.dtype.element_ty), mask=inside
    )
