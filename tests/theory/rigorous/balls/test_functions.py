"""The functions hold what FLINT gives at 1,200 bits, at the midpoint and at the ends of every ball."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb

from theory.rigorous.balls import Ball, exp, functions, rsqrt, sigmoid, silu, silu_slope, softplus

GENERATOR = np.random.default_rng(0)
ARGUMENTS = np.concatenate(
    [GENERATOR.normal(size=200) * scale for scale in (1e-6, 1.0, 5.0, 80.0)] + [np.linspace(-599, 599, 40)]
)


def _sigmoid(x: arb) -> arb:
    return 1 / (1 + (-x).exp())


FUNCTIONS: dict[str, tuple[Callable[[Ball], Ball], Callable[[arb], arb]]] = {
    "exp": (exp, lambda x: x.exp()),
    "sigmoid": (sigmoid, _sigmoid),
    "silu": (silu, lambda x: x * _sigmoid(x)),
    "silu_slope": (silu_slope, lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
    "softplus": (softplus, lambda x: x.exp().log1p()),
    "rsqrt": (rsqrt, lambda x: x.rsqrt()),
}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = 1200  # enough for 1 + e^{-599}
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize("radius", [0.0, 1e-9, 1e-2, 0.4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_holds_the_values_over_the_ball(name: str, radius: float) -> None:
    function, exact = FUNCTIONS[name]
    arguments = np.abs(ARGUMENTS) + 0.5 if name == "rsqrt" else ARGUMENTS
    result = function(Ball.around(arguments, radius))
    for place in (-1, 0, 1):
        for x, middle, bound in zip(arguments, result.midpoint, result.radius, strict=True):
            value = exact(arb(float(x)) + place * arb(radius))
            assert abs(value - arb(float(middle))) <= arb(float(bound))


@pytest.mark.parametrize("relative", [0.0, 1e-12, 0.5])
def test_quotients_hold_the_values_where_their_powers_are_no_floats(relative: float) -> None:
    middles = np.ldexp(1 + GENERATOR.random(1800), np.arange(-900, 900))
    radii = relative * middles
    for found, exact in (
        (rsqrt(Ball(middles, radii)), lambda x: x.rsqrt()),
        (Ball(middles, radii).reciprocal(), lambda x: 1 / x),
    ):
        for x, r, middle, bound in zip(middles, radii, found.midpoint, found.radius, strict=True):
            for place in (-1, 1):
                value = exact(arb(float(x)) + place * arb(float(r)))
                assert abs(value - arb(float(middle))) <= arb(float(bound))


@pytest.mark.parametrize(
    "function", [Ball.reciprocal, rsqrt, functions.log, functions.sqrt, functions.sqrt_slope]
)
@pytest.mark.parametrize("then", [lambda x: x, functions.absolute, functions.clamp, functions.tanh])
def test_zero_times_what_is_not_defined_is_no_number(
    function: Callable[[Ball], Ball], then: Callable[[Ball], Ball]
) -> None:
    undefined = then(function(Ball.around([-1.0, 0.5], [0.0, 1.0])))
    zero = Ball.exact(np.zeros((1, 2)))
    with np.errstate(invalid="ignore"):
        for product in (zero * undefined, undefined * zero, zero @ undefined[:, None]):
            known = ~np.isnan(product.midpoint)
            # 1/−1 alone is defined
            assert not known.any() or (
                function is Ball.reciprocal and known.ravel().tolist() == [True, False]
            )


@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "softplus", "rsqrt"])
def test_is_accurate_at_points(name: str) -> None:
    arguments = np.abs(ARGUMENTS) + 0.5 if name == "rsqrt" else ARGUMENTS
    result = FUNCTIONS[name][0](Ball.exact(arguments))
    # the bound that the module derives, and the underflow allowance
    assert (result.radius <= 2.0**-43.9 * np.abs(result.midpoint) + 2.0**-999).all()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "silu_slope", "softplus"])
def test_beyond_the_largest_argument_nothing_is_claimed(name: str) -> None:
    with np.errstate(all="ignore"):
        result = FUNCTIONS[name][0](Ball.exact([-700.0, 700.0]))
    assert not (result.radius < np.inf).any()


def test_the_root_of_a_ball_that_reaches_zero_is_not_defined() -> None:
    assert not (rsqrt(Ball.around([1.0, -1.0], [1.0, 0.0])).radius < np.inf).any()


def test_the_two_parts_of_the_logarithm_of_two() -> None:
    parts = arb(functions._LN2_HIGH) + arb(functions._LN2_LOW)
    assert abs(parts - arb.const_log2()) < arb(2) ** -85
    for k in (1, 700, 865):  # 600 / ln 2
        assert Fraction(functions._LN2_HIGH * k) == Fraction(functions._LN2_HIGH) * k


@pytest.mark.parametrize("radius", [1.0, 1.5, 30.0, 590.0])
def test_a_wide_exponential_is_bounded_by_its_upper_end(radius: float) -> None:
    middles = np.array([-3.0, 0.0, 4.0])
    result = exp(Ball.around(middles, radius))
    for middle, value, bound in zip(middles, result.midpoint, result.radius, strict=True):
        for place in (-1, 1):
            end = (arb(float(middle)) + place * arb(radius)).exp()
            assert abs(end - arb(float(value))) <= arb(float(bound))
        upper = (arb(float(middle)) + arb(radius)).exp()
        assert arb(float(bound)) < 1.02 * upper  # r (1 + r) at 1 is 16% more than e − 1


def test_beyond_the_largest_radius_an_exponential_is_not_bounded() -> None:
    with np.errstate(all="ignore"):
        assert not (exp(Ball.around([0.0], 601.0)).radius < np.inf).any()
