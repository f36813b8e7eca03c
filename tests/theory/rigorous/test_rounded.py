"""Bounds of rounding are reached: each operation on operands that are off, by the worst that is allowed."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from theory.rigorous.balls import Ball
from theory.rigorous.rounded import LINEAR, TINY, FloatFormat, Rounded, joined

U = 2.0**-10
FORM = FloatFormat("coarse", U, 3)
PHI = FORM.function
OFF = 0.01
NEAR = 1.05
"""By how much bounds may be above what is reached: terms of second order, and slopes over a range."""


def off(numbers: list[float], error: float = OFF) -> Rounded:
    return replace(Rounded.given(Ball.exact(numbers), FORM), error=np.full(len(numbers), error))


def extremes(function: Callable[..., float], *numbers: float) -> float:
    """The farthest that a function of operands that are off gets from its exact value."""
    signs = itertools.product((-1, 1), repeat=len(numbers))
    moved = (function(*(n + OFF * s for n, s in zip(numbers, row, strict=True))) for row in signs)
    return max(abs(value - function(*numbers)) for value in moved)


def largest(function: Callable[..., float], *numbers: float) -> float:
    signs = itertools.product((-1, 1), repeat=len(numbers))
    return max(abs(function(*(n + OFF * s for n, s in zip(numbers, row, strict=True)))) for row in signs)


BINARY: dict[str, tuple[Callable[[Rounded, Rounded], Rounded], Callable[[float, float], float]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (-2.0, 3.0), (0.5, -8.0), (0.0, 1.0)])
def test_elementary_operations(name: str, a: float, b: float) -> None:
    operation, exact = BINARY[name]
    found = operation(off([a]), off([b]))
    worst = extremes(exact, a, b) + U * largest(exact, a, b)
    assert float(found.exact.midpoint[0]) == exact(a, b)
    assert worst <= found.error[0] <= NEAR * worst


FUNCTIONS: dict[str, tuple[Callable[[Rounded], Rounded], Callable[[float], float]]] = {
    "exp": (Rounded.exp, math.exp),
    "softplus": (Rounded.softplus, lambda x: math.log1p(math.exp(x))),
    "rsqrt": (Rounded.rsqrt, lambda x: 1 / math.sqrt(x)),
    "silu": (Rounded.silu, lambda x: x / (1 + math.exp(-x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", [2.4, 4.0])
def test_functions_of_one_number(name: str, x: float) -> None:
    operation, exact = FUNCTIONS[name]
    found = operation(off([x]))
    worst = extremes(exact, x) + PHI * largest(exact, x)
    assert worst <= found.error[0] <= NEAR * worst


def test_sums_and_products_of_matrices_in_any_order() -> None:
    numbers = [1.0, -2.0, 4.0, 8.0]
    size = sum(abs(n) + OFF for n in numbers)
    found = off(numbers).sums(4)
    worst = 4 * OFF + FORM.gamma(4) * size
    assert worst <= found.error[0] <= NEAR * worst
    matrix = np.array([[0.5, -1.0, 2.0, 0.0]])
    spread = float((np.abs(matrix) @ (np.abs(numbers) + OFF))[0])
    mapped = off(numbers).mapped(Ball.exact(matrix))
    worst = OFF * 3.5 + FORM.gamma(4) * spread
    assert worst <= mapped.error[0] <= NEAR * worst
    pairs = off(numbers).sums(2)
    assert pairs.exact.midpoint.tolist() == [-1.0, 12.0]
    assert pairs.error[1] > pairs.error[0]


def test_a_norm() -> None:
    """For n equal numbers it is w; what comes in is divided by them, and a mean has a sum."""
    found = off([100.0] * 4).rms_norm(Ball.exact([3.0] * 4), 1e-5)
    relative = OFF / 100
    # x is off by itself and through the mean of squares; the root, the mean and two products round
    rounded = PHI + (FORM.gamma(4) + 5 * U) / 2 + 2 * U
    worst = 3 * (2 * relative + rounded)
    assert 0.9 * worst <= found.error[0] <= 1.1 * worst
    grouped = off([100.0, 100.0, 1.0, 1.0]).rms_norm(Ball.exact([3.0] * 4), 1e-5, groups=2)
    assert grouped.error[2] > grouped.error[0]


def test_the_error_holds_for_all_numbers_of_a_ball() -> None:
    """A product has its largest error where the other factor is."""
    wide = Rounded(Ball.around([0.0], 10.0), np.array([OFF]), FORM)
    found = wide * off([2.0])
    assert found.error[0] >= 10 * OFF + 2 * OFF + U * 20
    assert found.error[0] < NEAR * (10 * OFF + 2.1 * OFF + U * 10.01 * 2.01)
    far = Rounded(Ball.around([0.0], 2.0), np.array([OFF]), FORM).exp()
    assert far.error[0] >= math.exp(2) * OFF + PHI * math.exp(2)


def test_what_may_have_no_root_has_no_bound() -> None:
    assert np.isinf(off([0.5 * OFF]).rsqrt().error[0]) or np.isnan(off([0.5 * OFF]).rsqrt().error[0])
    assert not off([-1.0]).rsqrt().error[0] <= 1e300


def test_a_softplus_above_20_is_its_argument() -> None:
    """PyTorch's; e^−20 is less than the constant."""
    fine = FloatFormat("fine", 2.0**-53, 4)
    cut, whole = (Rounded.given(Ball.exact([x]), fine).softplus().error[0] for x in (20.0, 19.99))
    assert math.exp(-20) < LINEAR <= cut < LINEAR + 1e-13
    assert whole < 1e-13


def test_underflow_is_allowed_for_and_entries_keep_their_errors() -> None:
    zero = Rounded.given(Ball.exact([0.0]), FORM)
    assert TINY <= (zero + zero).error[0] < 2 * TINY
    one = joined([off([1.0], 0.1), off([2.0], 0.2)])
    assert one.error.tolist() == [0.1, 0.2]
    assert one.repeat(2).error.tolist() == [0.1, 0.1, 0.2, 0.2]
    assert one[np.array([1])].error.tolist() == [0.2]
    assert (-one).error.tolist() == [0.1, 0.2]
    assert math.hypot(0.1, 0.2) <= one.length() < 1.001 * math.hypot(0.1, 0.2)
