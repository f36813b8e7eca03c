# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The activation of Mamba-2 as functions that run inside kernels."""

import triton
import triton.language as tl


@triton.jit
def silu(x):
    """Return x / (1 + e^−x); an exponential that overflows leaves the zero that it should."""
    return x / (1.0 + tl.exp(-x))


@triton.jit
def silu_derivative(x):
    """Return σ(x) (1 + x (1 − σ(x))), σ the logistic function."""
    opened = 1.0 / (1.0 + tl.exp(-x))
    return opened * (1.0 + x * (1.0 - opened))


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
