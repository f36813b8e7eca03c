"""The functions of Dual: the mean value theorem between two points of a ball, in FLINT at 256 bits.

f(y) − f(x) = f'(ξ) (y − x) for some ξ between: the enclosed derivative, times y − x, holds the difference.
"""

from collections.abc import Callable, Iterator
from typing import Any

import flint
import numpy as np
import pytest
from flint import arb

from theory.rigorous.balls import Ball, Dual, elementary
from theory.rigorous.balls.elementary import RULES

COUNT = 1000


def powered(x: Dual, exponent: int) -> Dual:
    return x.through(
        lambda ball: elementary.power(ball, exponent),
        lambda ball: elementary.power(ball, exponent - 1) * float(exponent),
    )


def clamped(x: Dual, least: float, largest: float) -> Dual:
    return x.through(
        lambda ball: elementary.clamp(ball, least, largest),
        lambda ball: elementary.clamp_slope(ball, least, largest),
    )


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[arb], arb]]] = {
    "reciprocal": (lambda x: x.reciprocal(), lambda x: 1 / x),
    "quotient": (lambda x: x / (x * x).shifted(Ball.exact(1.0)), lambda x: x / (x * x + 1)),
    "difference": (lambda x: x * x - x, lambda x: x * x - x),
    "negative": (lambda x: -x, lambda x: -x),
    "power": (lambda x: powered(x, 3) + powered(x, 4), lambda x: x**3 + x**4),
    "square": (lambda x: x.through(*RULES["square"]), lambda x: x**2),
    "sqrt": (lambda x: x.through(*RULES["sqrt"]), lambda x: x.sqrt()),
    "log": (lambda x: x.through(*RULES["log"]), lambda x: x.log()),
    "tanh": (lambda x: x.through(*RULES["tanh"]), lambda x: x.tanh()),
    "sigmoid": (lambda x: x.through(*RULES["sigmoid"]), lambda x: 1 / (1 + (-x).exp())),
    "sin": (lambda x: x.through(*RULES["sin"]), lambda x: x.sin()),
    "cos": (lambda x: x.through(*RULES["cos"]), lambda x: x.cos()),
    "erf": (lambda x: x.through(*RULES["erf"]), lambda x: x.erf()),
    "gelu": (
        lambda x: x.through(elementary.gelu, elementary.gelu_slope),
        lambda x: x * (1 + (x / arb(2).sqrt()).erf()) / 2,
    ),
    "absolute": (lambda x: x.shifted(Ball.exact(-9.0)).through(*RULES["abs"]), lambda x: abs(x - 9)),
    "clamp": (lambda x: clamped(x, 0.25, np.inf) + clamped(x, 0.0, 0.5), lambda x: x.max(0.25) + x.min(0.5)),
}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = 256
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    function, exact = CASES[name]
    generator = np.random.default_rng(0)
    middle = 0.1 + generator.exponential(size=COUNT)
    radius = middle * 2.0 ** -generator.uniform(1, 50, COUNT)
    middle[0], radius[0] = 4.0, 2.0  # of x (x x + 1)⁻¹ nothing is known
    variable = Dual.variable(Ball.around(middle[:, None], radius[:, None]), columns=1)
    with np.errstate(all="ignore"):
        found = function(variable)
    # Over a wide ball the product x x of two balls reaches below −1: there, and only there, nothing is known.
    divisor = (variable.value * variable.value + 1.0).mignitude[:, 0]
    undefined = (divisor == 0) & (name == "quotient")
    assert np.array_equal(~np.isfinite(found.value.midpoint[:, 0]), undefined)
    points = generator.uniform(-1, 1, (COUNT, 2))
    known = np.isfinite(found.tangent.radius[:, 0, 0])
    assert known.mean() > 0.95  # the rest holds a kink
    assert not known[undefined].any()
    for k in range(COUNT):
        x, y = (arb(float(middle[k])) + arb(float(radius[k])) * arb(float(place)) for place in points[k])
        value = found.value[k, 0]
        for point in () if undefined[k] else (x, y):
            assert abs(exact(point) - arb(float(value.midpoint))) <= arb(float(value.radius))
        if known[k]:
            slope = arb(float(found.tangent.midpoint[k, 0, 0]), float(found.tangent.radius[k, 0, 0]))
            assert (slope * (y - x) - (exact(y) - exact(x))).contains(0)


def test_at_a_point_derivatives_are_exact_to_rounding() -> None:
    x = Dual.variable(Ball.exact(np.linspace(0.3, 3.0, 50)[:, None]), columns=1)
    for function, _ in CASES.values():
        tangent = function(x).tangent
        known = np.isfinite(tangent.radius)
        # 2^-40: the slope of gelu errs by 2^-41
        assert (tangent.radius <= 2.0**-40 * (1 + np.abs(tangent.midpoint)))[known].all()
