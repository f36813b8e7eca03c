"""FLINT's balls as the checkers use them: vectors, norms, functions of the models, Newton maps.

Nothing here is shared with what made a certificate. Numbers are `flint.arb` of any precision. A comparison of
balls is true only if it is true of all numbers in them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

from analysis.certificates.certificate import RefusedError

Vector = list[arb]
Rows = list[list[arb]]
"""A matrix of derivatives: a row for each number, a column for each direction."""
EPSILON = arb(1e-5)
"""ε of every norm: the float64 number 1e-5."""


def exact_vector(numbers: NDArray[np.floating[Any]]) -> Vector:
    """Return floats as exact balls.

    Example:
        >>> exact_vector(np.array([0.5]))[0].is_exact()
        True
    """
    return [arb(float(number)) for number in numbers.ravel()]


def exact_matrix(numbers: NDArray[np.floating[Any]]) -> arb_mat:
    """Return a matrix of floats as exact balls.

    Example:
        >>> exact_matrix(np.eye(2)).det() == 1
        True
    """
    rows, columns = numbers.shape
    return arb_mat(rows, columns, exact_vector(numbers))


def times(matrix: arb_mat, rows: Rows) -> Rows:
    """Return the product of a matrix and rows of derivatives.

    Example:
        >>> times(arb_mat([[2]]), [[arb(3)]]) == [[arb(6)]]
        True
    """
    return (matrix * arb_mat(rows)).tolist() if rows[0] else [[] for _ in range(matrix.nrows())]


def apply(matrix: arb_mat, vector: Vector) -> Vector:
    """Return M v.

    Example:
        >>> apply(arb_mat([[2]]), [arb(3)]) == [arb(6)]
        True
    """
    return (matrix * arb_mat(len(vector), 1, vector)).entries()


def sigmoid(x: arb) -> arb:
    """Return 1 / (1 + e^{−x}).

    Example:
        >>> sigmoid(arb(0)) == 0.5
        True
    """
    return 1 / (1 + (-x).exp())


def silu(x: arb) -> tuple[arb, arb]:
    """Return x σ(x) by its mean-value form, and its slope σ(x) (1 + x σ(−x)), both over the ball x.

    Example:
        >>> silu(arb(0)) == (arb(0), arb(0.5))
        True
    """
    inner = sigmoid(x)
    slope = inner * (1 + x * (1 - inner))
    middle = x.mid()
    return middle * sigmoid(middle) + slope * (x - middle), slope


def rms_norm(x: Vector, slopes: Rows, weight: Vector, groups: int = 1) -> tuple[Vector, Rows]:
    """Return y = w ∘ x r with r = (mean x² + ε)^{−1/2} a group, and dy = w ∘ (r dx − x r³ (xᵀ dx) / n).

    Example:
        >>> y, dy = rms_norm([arb(1), arb(1)], [[arb(1)], [arb(0)]], [arb(1), arb(1)])
        >>> abs(y[0] - 1) < 1e-4, abs(dy[0][0] - 0.5) < 1e-4
        (True, True)
    """
    size = len(x) // groups
    y: Vector = []
    dy: Rows = []
    for start in range(0, len(x), size):
        part, rates = x[start : start + size], slopes[start : start + size]
        r = (sum((e * e for e in part), arb(0)) / size + EPSILON).rsqrt()
        inner = times(arb_mat(1, size, part), rates)[0]
        common = [c * r * r / size for c in inner]
        for e, row, w in zip(part, rates, weight[start : start + size], strict=True):
            scale = w * r
            y.append(e * scale)
            dy.append([scale * (d - e * c) for d, c in zip(row, common, strict=True)])
    return y, dy


def scaled_to_unit(x: Vector, weight: Vector) -> Vector:
    """Return w ∘ x (mean x² + ε)^{−1/2}, as `rms_norm` without derivatives.

    Example:
        >>> abs(scaled_to_unit([arb(3), arb(4)], [arb(1), arb(1)])[0] - arb(18).sqrt() / 5) < 1e-6
        True
    """
    r = (sum((e * e for e in x), arb(0)) / len(x) + EPSILON).rsqrt()
    return [e * r * w for e, w in zip(x, weight, strict=True)]


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


@dataclass(frozen=True)
class NewtonMap:
    """A Newton map that contracts over a box.

    Attributes:
        inverse: P, the midpoint of an inverse of I − A's midpoint.
        defect: an enclosure of I − P (I − A), the derivative of the map.
        kappa: an upper bound of ‖I − P (I − A)‖_∞, below 1.

    Example:
        `contracting_newton_map` returns one.
    """

    inverse: arb_mat
    defect: arb_mat
    kappa: arb


def contracting_newton_map(slopes: arb_mat, refuse: Callable[[str], RefusedError]) -> NewtonMap:
    """Return the Newton map of a box over which it is proved to contract.

    Args:
        slopes: A, an enclosure of ∂zΦ over the box.
        refuse: makes the refusal of the claimed box from the reason.

    Raises:
        RefusedError: if I − A cannot be inverted, or the map is not proved to contract.

    Example:
        >>> found = contracting_newton_map(arb_mat([[0.5]]), lambda why: RefusedError("radius", why))
        >>> found.inverse[0, 0] == 2, found.kappa == 0
        (True, True)
        >>> wide = arb_mat([[arb(0.5, 0.6)]])
        >>> contracting_newton_map(wide, lambda why: RefusedError("radius", why))
        Traceback (most recent call last):
        analysis.certificates.certificate.RefusedError: radius: the Newton map does not contract over it
    """
    one = identity(slopes.nrows())
    system = one - slopes
    try:
        inverse = system.mid().inv().mid()
    except ZeroDivisionError:
        raise refuse("the derivative over it cannot be inverted") from None
    defect = one - inverse * system
    kappa = row_sum(defect)
    if not kappa < 1:
        raise refuse("the Newton map does not contract over it")
    return NewtonMap(inverse, defect, kappa)


def triangle(numbers: NDArray[np.float64], size: int) -> arb_mat:
    """Return the upper triangular matrix whose rows are given one after the other.

    Example:
        >>> triangle(np.array([1.0, 2.0, 3.0]), 2).det() == 3
        True
    """
    rows = np.zeros((size, size))
    rows[np.triu_indices(size)] = numbers
    return exact_matrix(rows)
