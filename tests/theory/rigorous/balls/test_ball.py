"""Balls hold what exact arithmetic gives, zeros stay zero; derivatives are PyTorch's in float64."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from operator import add, mul, sub, truediv
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.func import jacrev
from torch.nn import functional

from theory.rigorous.balls import Dual
from theory.rigorous.balls.ball import Ball, row_sum_norm, spectral_norm
from theory.rigorous.balls.dual import join
from theory.rigorous.balls.functions import RULES

Array = NDArray[np.float64]


def _numbers(count: int, seed: int) -> Array:
    """Numbers of magnitudes from 1e-12 to 1e12, of either sign."""
    generator = np.random.default_rng(seed)
    return generator.choice([-1, 1], count) * 10.0 ** generator.uniform(-12, 12, count)


def _holds(ball: Ball, index: tuple[int, ...], exact: Fraction) -> bool:
    distance = abs(exact - Fraction(float(ball.midpoint[index])))
    return distance <= Fraction(float(ball.radius[index]))


@pytest.mark.parametrize("operation", [add, sub, mul, truediv], ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("relative", [0.0, 1e-3], ids=["points", "balls"])
def test_an_operation_holds_the_exact_results_at_the_ends(
    operation: Callable[..., object], relative: float
) -> None:
    a, b = _numbers(80, 0), _numbers(80, 1)
    left, right = Ball.around(a, relative * np.abs(a)), Ball.around(b, relative * np.abs(b))
    result = operation(left, right)
    assert isinstance(result, Ball)
    for index, *signs in product(range(len(a)), (-1, 0, 1), (-1, 0, 1)):
        x, y = (
            Fraction(ball.midpoint[index]) + sign * Fraction(ball.radius[index])
            for ball, sign in zip((left, right), signs, strict=True)
        )
        exact = operation(x, y)
        assert isinstance(exact, Fraction)
        assert _holds(result, (index,), exact)


def test_an_operation_on_exact_numbers_errs_by_rounding_only() -> None:
    a, b = Ball.exact(_numbers(80, 0)), Ball.exact(_numbers(80, 1))
    for result in (a * b, a / b):
        # two units in the last place: 1/b is rounded, and the product again
        assert (result.radius <= 3 * 2.0**-53 * np.abs(result.midpoint)).all()


@pytest.mark.parametrize("radius", [0.0, 1e-6])
def test_a_matrix_product_holds_the_exact_one(radius: float) -> None:
    generator = np.random.default_rng(2)
    # Entries of mixed size cancel badly: the result is far smaller than its terms.
    A = generator.normal(size=(4, 50)) * 10.0 ** generator.uniform(-8, 8, (4, 50))
    B = generator.normal(size=(50, 3)) * 10.0 ** generator.uniform(-8, 8, (50, 3))
    found = Ball.around(A, radius) @ Ball.around(B, radius)
    to_fraction = np.frompyfunc(Fraction, 1, 1)
    for _ in range(2):
        left, right = (
            to_fraction(M) + to_fraction(generator.choice([-1, 1], M.shape)) * Fraction(radius)
            for M in (A, B)
        )
        for index, exact in np.ndenumerate(left @ right):
            assert _holds(found, index, exact)


def test_sums_hold_the_exact_ones() -> None:
    numbers = _numbers(200, 3)
    assert _holds(Ball.exact(numbers[None]).sum(1), (0,), sum(map(Fraction, numbers), Fraction(0)))


def test_zero_stays_exactly_zero() -> None:
    zero, other = Ball.exact(np.zeros((2, 2))), Ball.around(np.ones((2, 2)), 0.5)
    for result in (zero * other, zero @ other, other @ zero, zero + zero, zero.sum(0)):
        assert result.is_zero.all()
    assert not (other - other).is_zero.any()  # two numbers of the same ball need not be equal
    mixed = Ball.exact([[1.0, 0.0]]) @ Ball.exact([[0.0], [7.0]])  # no term has two factors
    assert mixed.is_zero.all()


def test_denormal_products_are_not_taken_for_zero() -> None:
    tiny = Ball.exact([1e-200])
    square = tiny * tiny
    assert square.midpoint[0] == 0
    assert square.radius[0] > 0
    assert not square.is_zero.any()


def test_division_by_a_ball_around_zero_proves_nothing() -> None:
    with np.errstate(all="ignore"):
        quotient = Ball.exact([1.0, 1.0]) / Ball.around([0.1, 0.0], [0.1, 0.0])
    assert not (quotient.radius < np.inf).any()
    assert not (quotient.mignitude > 0).any()


def test_bounds_of_a_ball_are_outside_of_it() -> None:
    ball = Ball.around(_numbers(80, 4), 0.1)
    parts = np.stack([ball.midpoint, ball.lower, ball.upper, ball.mignitude, ball.magnitude], axis=1)
    for m, lower, upper, mignitude, magnitude in (map(Fraction, row) for row in parts.tolist()):
        r = Fraction(0.1)
        assert lower <= m - r <= m + r <= upper
        assert mignitude <= max(abs(m) - r, Fraction(0))
        assert magnitude >= abs(m) + r


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_norms_are_bounds_and_nearly_sharp(scale: float) -> None:
    matrices = np.random.default_rng(5).normal(size=(6, 20, 20)) * scale
    spectral = np.linalg.svd(matrices / scale, compute_uv=False)[:, 0] * scale
    bound = spectral_norm(Ball.exact(matrices))
    # numpy's own error is about 1e-15; the bound may be 20^{1/64} = 1.05 too large
    assert (bound >= spectral * (1 - 1e-13)).all()
    assert (bound <= 1.05 * spectral).all()
    sums = np.abs(matrices).sum(2).max(1)
    np.testing.assert_allclose(row_sum_norm(Ball.exact(matrices)), sums, rtol=1e-13)


def test_norms_of_balls_bound_every_matrix_in_them() -> None:
    generator = np.random.default_rng(6)
    centre = generator.normal(size=(8, 8))
    ball = Ball.around(centre, 0.1)
    spectral, rows = float(spectral_norm(ball)), float(row_sum_norm(ball))
    for _ in range(50):
        inside = centre + 0.1 * generator.choice([-1, 1], (8, 8))
        assert np.linalg.norm(inside, 2) <= spectral * (1 + 1e-13)
        assert np.abs(inside).sum(1).max() <= rows * (1 + 1e-13)


def test_norms_of_what_is_not_finite_are_not_finite() -> None:
    broken = Ball(np.array([[[1.0, np.nan], [0.0, 1.0]], np.eye(2).tolist()]), np.zeros((2, 2, 2)))
    with np.errstate(all="ignore"):
        assert not (row_sum_norm(broken)[0] < np.inf)
        assert not (spectral_norm(broken)[0] < np.inf)
        assert spectral_norm(broken)[1] < 1.1


def test_a_radius_of_another_shape_is_refused() -> None:
    with pytest.raises(AssertionError, match="radius"):
        Ball(np.zeros(2), np.zeros(3))


M = np.random.default_rng(0).normal(size=(4, 3))
X = np.array([0.3, -1.2, 2.0])
CASES: dict[str, tuple[Any, Any]] = {
    "product": (lambda x: x * x[[2, 0, 1]], lambda x: x * x[[2, 0, 1]]),
    "sum": (lambda x: x + x[[2, 0, 1]], lambda x: x + x[[2, 0, 1]]),
    "scaled": (lambda x: x.scaled(Ball.exact([2.0, -1.0, 0.5])), lambda x: x * torch.tensor([2.0, -1, 0.5])),
    "shifted": (lambda x: x.shifted(Ball.exact(1.5)), lambda x: x + 1.5),
    "mapped": (lambda x: x.mapped(Ball.exact(M)), lambda x: torch.from_numpy(M) @ x),
    "sums": (lambda x: (x * x).sums(3), lambda x: (x * x).sum()[None]),
    "repeat": (lambda x: x.repeat(2), lambda x: x.repeat_interleave(2)),
    "join": (lambda x: join([x, x * x]), lambda x: torch.cat([x, x * x])),
    "exp": (lambda x: x.exp(), torch.exp),
    "silu": (lambda x: x.silu(), functional.silu),
    "softplus": (lambda x: x.softplus(), functional.softplus),
    "difference": (lambda x: x * x - x, lambda x: x * x - x),
    "negative": (lambda x: -x, lambda x: -x),
    "reciprocal": (lambda x: (x * x).shifted(Ball.exact(1.0)).reciprocal(), lambda x: 1 / (x * x + 1)),
    "quotient": (lambda x: x / (x * x).shifted(Ball.exact(1.0)), lambda x: x / (x * x + 1)),
    "through": (lambda x: x.through(*RULES["tanh"]), torch.tanh),
    "rsqrt": (lambda x: (x * x).shifted(Ball.exact(1.0)).rsqrt(), lambda x: torch.rsqrt(x * x + 1)),
}


@pytest.mark.parametrize(("ours", "reference"), CASES.values(), ids=CASES)
def test_values_and_derivatives(ours: Any, reference: Any) -> None:
    """At a point, and over a ball those at its points."""
    found = ours(Dual.variable(Ball.exact(X[None]), columns=4))
    assert (found.tangent.radius < 1e-12).all()
    assert found.tangent[..., 3].is_zero.all()  # a direction that nothing depends on
    over = ours(Dual.variable(Ball.around(X[None], 0.05), columns=4))
    inside = 0.05 * np.random.default_rng(0).uniform(-1, 1, (20, 3))
    for holding, moves in ((found, np.zeros((1, 3))), (over, inside)):
        for point in torch.from_numpy(X + moves):
            value, slope = reference(point).numpy(), jacrev(reference)(point).numpy()
            # the float64 reference is exact to about 1e-15
            assert (np.abs(value - holding.value.midpoint[0]) <= holding.value.radius[0] + 1e-13).all()
            tangent = holding.tangent[..., :3]
            assert (np.abs(slope - tangent.midpoint[0]) <= tangent.radius[0] + 1e-12).all()


def test_entries_by_position() -> None:
    x = Dual.variable(Ball.exact([[1.0, 2.0], [3.0, 4.0]]), columns=2)
    chosen = x.at(np.array([1, 0]))
    assert chosen.value.midpoint.tolist() == [[2.0], [3.0]]
    assert chosen.tangent.midpoint.tolist() == [[[0.0, 1.0]], [[1.0, 0.0]]]
