# mypy: allow-untyped-decorators
"""Products and transposes against NumPy."""

from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from implicit.ops.numba_shared import matrices  # noqa: E402
from implicit.ops.numba_shared.jit import OPTIONS  # noqa: E402

DTYPES = [np.float32, np.float64]


@numba.njit(**OPTIONS)
def product(left: Any, left_row: int, left_inner: int, right: Any, scale: Any, out: Any, sizes: Any) -> None:
    rows, columns, inner = sizes
    matrices.multiply(
        rows,
        columns,
        inner,
        matrices.Matrix(left, 0, left_row),
        left_inner,
        matrices.Matrix(right, 0, columns),
        scale,
        matrices.Matrix(out, 0, columns),
    )


@numba.njit(**OPTIONS)
def triangular(left: Any, right: Any, out: Any, sizes: Any) -> None:
    rows, columns = sizes
    factors = matrices.Matrix(left, 0, rows), matrices.Matrix(right, 0, columns)
    matrices.add_triangular(rows, columns, *factors, matrices.Matrix(out, 0, columns))


@numba.njit(**OPTIONS)
def turned(matrix: Any, out: Any, sizes: Any) -> None:
    rows, columns = sizes
    matrices.transpose(rows, columns, matrices.Matrix(matrix, 0, columns), matrices.Matrix(out, 0, rows))


def draw(dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 0.5])
@pytest.mark.parametrize(("row_tiles", "registers", "inner"), [(1, 1, 1), (2, 2, 5), (3, 3, 16)])
def test_products_are_those_of_numpy(
    row_tiles: int, registers: int, inner: int, scale: float, dtype: Any
) -> None:
    width = matrices.lanes(dtype)
    rows, columns = row_tiles * matrices.TILE_ROWS, registers * width
    left, right = draw(dtype, rows, inner), draw(dtype, inner, columns)
    wide = np.float64
    for given, steps in ((left.T, (1, rows)), (left, (inner, 1))):  # columns first, and rows first
        out = draw(dtype, rows, columns) if scale else np.full((rows, columns), np.nan, dtype)
        expected = left.astype(wide) @ right.astype(wide) + (scale * out.astype(wide) if scale else 0)
        arguments = np.ascontiguousarray(given).reshape(-1), *steps, right.reshape(-1), dtype(scale)
        product(*arguments, out.reshape(-1), (rows, columns, inner))
        # Sums of 17 terms of order one, a rounding each: 17 times the half of eps, and entries of order 10.
        np.testing.assert_allclose(out, expected, rtol=0, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("row_tiles", "registers"), [(1, 1), (2, 2), (3, 3)])
def test_triangular_products_do_not_read_above_the_diagonal(
    row_tiles: int, registers: int, dtype: Any
) -> None:
    width = matrices.lanes(dtype)
    rows, columns = row_tiles * matrices.TILE_ROWS, registers * width
    left, right, out = draw(dtype, rows, rows), draw(dtype, rows, columns), draw(dtype, rows, columns)
    expected = out + np.tril(left).astype(np.float64) @ right
    left[np.triu_indices(rows, 1)] = np.nan
    triangular(left.reshape(-1), right.reshape(-1), out.reshape(-1), (rows, columns))
    # Sums of up to 25 terms of order one, a rounding each, and entries of order 10.
    np.testing.assert_allclose(out, expected, rtol=0, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("down", "across"), [(1, 1), (2, 3)])
def test_transposes_are_exact(down: int, across: int, dtype: Any) -> None:
    width = matrices.lanes(dtype)
    matrix = draw(dtype, down * width, across * width)
    out = np.full(matrix.T.shape, np.nan, dtype)
    turned(matrix.reshape(-1), out.reshape(-1), matrix.shape)
    np.testing.assert_array_equal(out, matrix.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_zero_and_begins_with_a_line_of_the_cache(dtype: Any) -> None:
    room = matrices.memory(1000, dtype)
    assert room.shape == (1000,)
    assert room.dtype == dtype
    assert not room.any()
    assert room.ctypes.data % 64 == 0
