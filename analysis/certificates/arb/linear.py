"""Precision, norms and definiteness of FLINT's ball matrices, as the checkers use them."""

from collections.abc import Iterator
from contextlib import contextmanager

from flint import arb, arb_mat, ctx

from analysis.certificates.arb.mamba2 import Vector

SQUARINGS = 8


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside; FLINT's precision is global.

    Example:
        >>> with precision(200):
        ...     bool(arb(2).sqrt().rad() < 1e-50)
        True
    """
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def identity(size: int) -> arb_mat:
    """Return the identity matrix.

    Example:
        >>> identity(3).trace() == 3
        True
    """
    return arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])


def row_sum(matrix: arb_mat) -> arb:
    """Return an upper bound of ‖M‖_∞, as an exact number; NaN stays NaN.

    Example:
        >>> row_sum(arb_mat([[1, -2], [0, 1]])) == 3
        True
    """
    sums = [sum((abs(entry) for entry in row), arb(0)) for row in matrix.tolist()]
    return max_upper(sums)


def max_upper(numbers: Vector) -> arb:
    """Return the largest upper bound; NaN if one of them is.

    Example:
        >>> max_upper([arb(1), arb(3)]) == 3
        True
    """
    if not all(number.is_finite() for number in numbers):
        return arb.nan()
    result = arb(0)
    for number in numbers:
        if not number.upper() <= result:
            result = number.upper()
    return result


def norm_bound(vector: Vector) -> arb:
    """Return an upper bound of the Euclidean norm; the square of a ball around zero would reach below zero.

    Example:
        >>> norm_bound([arb(3), arb(-4)]) == 5
        True
    """
    return sum((abs(entry).upper() ** 2 for entry in vector), arb(0)).sqrt().upper()


def spectral_bound(matrix: arb_mat) -> arb:
    """Return an upper bound of ‖M‖₂ that is too large by at most n^(1/512): ‖(MᵀM)^(2^k)‖_∞^(1/2^(k+1)).

    Example:
        >>> bool(2 <= spectral_bound(arb_mat([[2, 0], [0, 1]])) < 2.01)
        True
    """
    gram = matrix.transpose() * matrix
    for _ in range(SQUARINGS):
        gram = gram * gram
    bound = row_sum(gram)
    for _ in range(SQUARINGS + 1):
        bound = bound.sqrt()
    return bound.upper()


def is_positive_definite(matrix: arb_mat) -> bool:
    """Return whether every symmetric matrix in the ball has a Cholesky decomposition: is positive definite.

    Example:
        >>> is_positive_definite(arb_mat([[2, 1], [1, 2]])), is_positive_definite(arb_mat([[1, 2], [2, 1]]))
        (True, False)
    """
    rows = matrix.tolist()
    size = len(rows)
    for k in range(size):
        if not rows[k][k] > 0:
            return False
        for i in range(k + 1, size):
            factor = rows[i][k] / rows[k][k]
            for j in range(k + 1, i + 1):
                rows[i][j] -= factor * rows[j][k]
    return True
