"""Vectors, matrices and norms in FLINT's balls, with derivatives; no producer shares them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

Vector = list[arb]
Rows = list[list[arb]]  # a matrix of derivatives: a row for each number, a column for each direction
Sloped = tuple[Vector, Rows]  # numbers with their derivatives
EPSILON = arb(1e-5)  # ε of every norm: the float64 number 1e-5


Weights = Mapping[str, NDArray[np.floating[Any]]]


def exact_vector(numbers: NDArray[np.floating[Any]]) -> Vector:
    """Return floats as exact balls."""
    return [arb(float(number)) for number in numbers.ravel()]


def exact_matrix(numbers: NDArray[np.floating[Any]]) -> arb_mat:
    """Return a matrix of floats as exact balls."""
    rows, columns = numbers.shape
    return arb_mat(rows, columns, exact_vector(numbers))


def plus(one: Vector, other: Vector) -> Vector:
    """Return the sum."""
    return [a + b for a, b in zip(one, other, strict=True)]


def minus(one: Vector, other: Vector) -> Vector:
    """Return the difference."""
    return [a - b for a, b in zip(one, other, strict=True)]


def times(matrix: arb_mat, rows: Rows) -> Rows:
    """Return the product of a matrix and rows of derivatives."""
    return (matrix * arb_mat(rows)).tolist() if rows[0] else [[] for _ in range(matrix.nrows())]


def apply(matrix: arb_mat, vector: Vector) -> Vector:
    """Return M v."""
    return (matrix * arb_mat(len(vector), 1, vector)).entries()


def sigmoid(x: arb) -> arb:
    """Return 1 / (1 + e^{−x})."""
    return 1 / (1 + (-x).exp())


def silu(x: arb) -> tuple[arb, arb]:
    """Return x σ(x) by its mean-value form, and its slope σ(x) (1 + x σ(−x)), both over the ball x."""
    inner = sigmoid(x)
    slope = inner * (1 + x * (1 - inner))
    middle = x.mid()
    return middle * sigmoid(middle) + slope * (x - middle), slope


def scaled(x: Vector, slopes: Rows, divisor: int, epsilon: arb) -> Sloped:
    """Return y = x r with r = (Σ x² / n + ε)^{−1/2}, and dy = r (dx − x r² (xᵀ dx) / n)."""
    r = (sum((e * e for e in x), arb(0)) / divisor + epsilon).rsqrt()
    (inner,) = times(arb_mat(1, len(x), x), slopes)
    common = [c * r**2 / divisor for c in inner]
    return [e * r for e in x], [
        [r * (d - e * c) for d, c in zip(row, common, strict=True)] for e, row in zip(x, slopes, strict=True)
    ]


def rms_norm(x: Vector, slopes: Rows, weight: Vector, groups: int = 1, epsilon: arb = EPSILON) -> Sloped:
    """Return y = w ∘ x r with r = (mean x² + ε)^{−1/2} of a group, and dy."""
    size = len(x) // groups
    y: Vector = []
    dy: Rows = []
    for start in range(0, len(x), size):
        group = slice(start, start + size)
        for w, e, row in zip(weight[group], *scaled(x[group], slopes[group], size, epsilon), strict=True):
            y.append(w * e)
            dy.append([w * d for d in row])
    return y, dy


def scaled_to_unit(x: Vector, weight: Vector) -> Vector:
    """Return w ∘ x (mean x² + ε)^{−1/2}, as `rms_norm` without derivatives."""
    r = (sum((e * e for e in x), arb(0)) / len(x) + EPSILON).rsqrt()
    return [e * r * w for e, w in zip(x, weight, strict=True)]


SQUARINGS = 8  # squarings of MᵀM in `spectral_bound`; each halves the logarithm of its excess


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside; FLINT's precision is global."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def identity(size: int) -> arb_mat:
    """Return the identity matrix."""
    return arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])


def row_sum(matrix: arb_mat) -> arb:
    """Return an upper bound of ‖M‖_∞, as an exact number; NaN stays NaN."""
    sums = [sum((abs(entry) for entry in row), arb(0)) for row in matrix.tolist()]
    return max_upper(sums)


def max_upper(numbers: Vector) -> arb:
    """Return the largest upper bound; NaN if one of them is."""
    if not all(number.is_finite() for number in numbers):
        return arb.nan()
    result = arb(0)
    for number in numbers:
        if not number.upper() <= result:
            result = number.upper()
    return result


def norm_bound(vector: Vector) -> arb:
    """Bound the Euclidean norm from above; the square of a ball around zero would reach below zero."""
    return sum((abs(entry).upper() ** 2 for entry in vector), arb(0)).sqrt().upper()


def spectral_bound(matrix: arb_mat) -> arb:
    """Return an upper bound of ‖M‖₂ that is too large by at most n^(1/512): ‖(MᵀM)^(2^k)‖_∞^(1/2^(k+1))."""
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


class NewtonMap(NamedTuple):
    """A Newton map z − P (z − Φ(z)) that contracts over a box."""

    inverse: arb_mat  # P
    defect: arb_mat  # an enclosure of its derivative I − P (I − A)
    kappa: arb  # below 1, a bound of the row-sum norm of the defect


def contracting_newton_map(slopes: arb_mat, refuse: Callable[[str], Exception]) -> NewtonMap:
    """Return the Newton map of a box from an enclosure of ∂zΦ over it; ``refuse`` makes the refusal."""
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
    """Return the upper triangular matrix whose rows are given one after the other."""
    rows = np.zeros((size, size))
    rows[np.triu_indices(size)] = numbers
    return exact_matrix(rows)
