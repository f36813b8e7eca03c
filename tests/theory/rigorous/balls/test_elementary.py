"""The functions on 500 random balls each against FLINT at 256 bits: none violated, and nearly the least.

A ball is tested at its two ends, its midpoint, a random point inside, and where the function has an extremum.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import flint
import numpy as np
import pytest
from flint import arb

from theory.rigorous.balls import Ball, functions

BALLS = 500
BITS = 256


@dataclass(frozen=True)
class Case:
    """A function of balls with FLINT's, and the arguments that are drawn.

    Its radius is at most ``factor`` times the least one, plus ``curvature`` · r² for what is bounded by its
    slope at the midpoint, plus ``floor`` · (1 + |x| + |f(x)|), the error at a float.
    """

    ours: Callable[[Ball], Ball]
    exact: Callable[[arb], arb]
    factor: float
    curvature: float = 0.0
    widest: float = 8.0
    scale: float = 5.0
    positive: bool = False
    extrema: tuple[float, ...] = ()  # where it may be largest or least inside a ball
    floor: float = 2.0**-41


def _sigmoid(x: arb) -> arb:
    return 1 / (1 + (-x).exp())


def _normal(x: arb) -> arb:
    return (1 + (x / arb(2).sqrt()).erf()) / 2


def _density(x: arb) -> arb:
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


ENDS = 1.01  # monotone functions are bounded by their values at the ends
TURNS = tuple(k * math.pi / 2 for k in range(-300, 301))
CASES = {
    "log": Case(functions.log, lambda x: x.log(), ENDS, positive=True),
    "sqrt": Case(functions.sqrt, lambda x: x.sqrt(), ENDS, positive=True),
    "sqrt_slope": Case(functions.sqrt_slope, lambda x: x.rsqrt() / 2, ENDS, positive=True),
    "rsqrt_slope": Case(functions.rsqrt_slope, lambda x: -(x.rsqrt() ** 3) / 2, ENDS, positive=True),
    "square": Case(lambda x: functions.power(x, 2), lambda x: x * x, ENDS, extrema=(0.0,)),
    "cube": Case(lambda x: functions.power(x, 3), lambda x: x**3, ENDS),
    "tenth power": Case(lambda x: functions.power(x, 10), lambda x: x**10, ENDS, extrema=(0.0,)),
    "tanh": Case(functions.tanh, lambda x: x.tanh(), ENDS),
    "tanh_slope": Case(functions.tanh_slope, lambda x: x.cosh() ** -2, ENDS, extrema=(0.0,)),
    "sigmoid_slope": Case(
        functions.sigmoid_slope, lambda x: _sigmoid(x) * _sigmoid(-x), ENDS, extrema=(0.0,)
    ),
    "sin": Case(functions.sin, lambda x: x.sin(), 2.0, extrema=TURNS),
    "cos": Case(functions.cos, lambda x: x.cos(), 2.0, extrema=TURNS),
    "sin of large angles": Case(functions.sin, lambda x: x.sin(), math.inf, widest=1e-2, scale=4e3),
    "erf": Case(functions.erf, lambda x: x.erf(), ENDS),
    "erf_slope": Case(
        functions.erf_slope, lambda x: 2 / arb.pi().sqrt() * (-x * x).exp(), ENDS, extrema=(0.0,)
    ),
    "gelu": Case(
        functions.gelu, lambda x: x * _normal(x), ENDS, curvature=0.8, extrema=(-0.7517915246935645,)
    ),
    "gelu_slope": Case(
        functions.gelu_slope,
        lambda x: _normal(x) + x * _density(x),
        math.inf,  # bounded by a Lipschitz constant
        extrema=(-(2**0.5), 2**0.5),
    ),
    "absolute": Case(functions.absolute, abs, ENDS, extrema=(0.0,)),
    "relu": Case(lambda x: functions.clamp(x, 0.0), lambda x: (x + abs(x)) / 2, ENDS, extrema=(0.0,)),
    "clamp": Case(
        lambda x: functions.clamp(x, -1.0, 2.0),
        lambda x: (abs(x + 1) - abs(x - 2) + 1) / 2,
        ENDS,
        extrema=(-1.0, 2.0),
    ),
    # midpoints up to 580: nothing is claimed beyond 600
    "exp": Case(functions.exp, lambda x: x.exp(), 1.75, widest=1.0, scale=29.0),
    "sigmoid": Case(functions.sigmoid, _sigmoid, ENDS, curvature=0.1, scale=29.0),
    "silu": Case(
        functions.silu,
        lambda x: x * _sigmoid(x),
        ENDS,
        curvature=0.5,
        scale=29.0,
        extrema=(-1.2784645427610738,),
    ),
    "silu_slope": Case(
        functions.silu_slope, lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x)), math.inf, scale=29.0
    ),
    "softplus": Case(functions.softplus, lambda x: x.exp().log1p(), ENDS, curvature=0.25, scale=29.0),
    "rsqrt": Case(functions.rsqrt, lambda x: x.rsqrt(), math.inf, positive=True),
}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    yield
    flint.ctx.prec = before


def _balls(case: Case, seed: int = 0) -> Ball:
    """Midpoints of all sizes, and radii from 2^-60 to the widest; one in ten is a point."""
    generator = np.random.default_rng(seed)
    size = case.scale * 10.0 ** generator.choice([-8.0, -2.0, 0.0, 0.0, 1.0], BALLS)
    middle = np.clip(generator.normal(size=BALLS) * size, -20 * case.scale, 20 * case.scale)
    radius = case.widest * 2.0 ** -generator.uniform(0, 60, BALLS)
    radius[::10] = 0.0
    if case.positive:
        middle = np.abs(middle)
        radius = np.minimum(radius, 0.9 * middle)
    return Ball.around(middle, radius)


def _within(value: arb, middle: float, bound: float) -> bool:
    return bool(abs(value - arb(float(middle))) <= arb(float(bound)))


def _points(case: Case, m: float, r: float, inside: float) -> list[arb]:
    middle, radius = arb(m), arb(r)
    points = [middle - radius, middle, middle + radius, middle + radius * arb(inside)]
    return points + [arb(e) for e in case.extrema if abs(e - m) < r]


@pytest.mark.parametrize("name", CASES)
def test_no_value_lies_outside_and_the_radius_is_nearly_the_least(name: str) -> None:
    case = CASES[name]
    balls = _balls(case)
    found = case.ours(balls)
    inside = np.random.default_rng(1).uniform(-1, 1, BALLS)
    worst = 0.0
    for m, r, middle, bound, place in zip(
        balls.midpoint, balls.radius, found.midpoint, found.radius, inside, strict=True
    ):
        assert np.isfinite(bound)
        values = [case.exact(point) for point in _points(case, float(m), float(r), float(place))]
        for value in values:
            assert _within(value, middle, bound), (m, r)
        least = 0.5 * max(float(abs(a - b).mid()) for a, b in combinations(values, 2))
        floor = case.floor * (1 + abs(m) + max(float(abs(value).mid()) for value in values))
        excess = float(bound - floor - case.curvature * r * r)
        if excess > 0:
            worst = max(worst, excess / least if least else math.inf)
    assert worst <= case.factor, worst


@pytest.mark.parametrize("name", [name for name in CASES if "slope" not in name and "angles" not in name])
def test_slopes_hold_the_quotients_of_differences(name: str) -> None:
    """By the mean value theorem every quotient over two points of a ball is a slope inside it."""
    case = CASES[name]
    slope = SLOPES[name]
    balls = _balls(case, seed=2)
    found = slope(balls)
    pairs = np.random.default_rng(3).uniform(-1, 1, (BALLS, 2))
    flint.ctx.prec = 5 * BITS  # the quotient cancels
    known = np.isfinite(found.radius)
    assert known.mean() > 0.6  # the rest holds a kink
    for k in np.flatnonzero(known & (balls.radius > 0)):
        m, r = arb(float(balls.midpoint[k])), arb(float(balls.radius[k]))
        left, right = m + r * arb(float(pairs[k, 0])), m + r * arb(float(pairs[k, 1]))
        quotient = (case.exact(left) - case.exact(right)) / (left - right)
        assert _within(quotient, found.midpoint[k], found.radius[k])


SLOPES: dict[str, Callable[[Ball], Ball]] = {
    "log": lambda x: x.reciprocal(),
    "sqrt": functions.sqrt_slope,
    "square": lambda x: x * 2.0,
    "cube": lambda x: functions.power(x, 2) * 3.0,
    "tenth power": lambda x: functions.power(x, 9) * 10.0,
    "tanh": functions.tanh_slope,
    "sin": functions.cos,
    "cos": lambda x: -functions.sin(x),
    "erf": functions.erf_slope,
    "gelu": functions.gelu_slope,
    "absolute": functions.absolute_slope,
    "relu": lambda x: functions.clamp_slope(x, 0.0),
    "clamp": lambda x: functions.clamp_slope(x, -1.0, 2.0),
    "exp": functions.exp,
    "sigmoid": functions.sigmoid_slope,
    "silu": functions.silu_slope,
    "softplus": functions.sigmoid,
    "rsqrt": functions.rsqrt_slope,
}


def test_powers_hold_what_every_rounding_takes_away() -> None:
    """(1 + d)ⁿ with d² just below a half of 2⁻⁵² / 64: each product rounds 1 + k d + k d² down to 1 + k d."""
    x = 1 + round(2.0**26 * (0.49 / 64) ** 0.5) * 2.0**-52
    found = functions.power(Ball.exact([x]), 63)
    assert found.contains([Fraction(x) ** 63])
    lost = Fraction(x) ** 63 - Fraction(float(found.midpoint[0]))
    assert lost > 12 * Fraction(2) ** -52  # far more than what the rounding of the ball itself allows for


def test_powers_are_taken_as_far_as_their_error_was_counted() -> None:
    assert functions.power(Ball.exact([1.5]), 64).contains([Fraction(3, 2) ** 64])
    with pytest.raises(AssertionError):
        functions.power(Ball.exact([1.5]), 65)


@pytest.mark.parametrize("relative", [0.0, 1e-12, 0.5])
def test_quotients_hold_the_values_where_their_powers_are_no_floats(relative: float) -> None:
    middles = np.ldexp(1 + np.random.default_rng(0).random(1800), np.arange(-900, 900))
    radii = relative * middles
    for found, exact in (
        (functions.rsqrt(Ball(middles, radii)), lambda x: x.rsqrt()),
        (Ball(middles, radii).reciprocal(), lambda x: 1 / x),
    ):
        for x, r, middle, bound in zip(middles, radii, found.midpoint, found.radius, strict=True):
            for place in (-1, 1):
                assert _within(exact(arb(float(x)) + place * arb(float(r))), middle, bound)


@pytest.mark.parametrize(
    "function", [Ball.reciprocal, functions.rsqrt, functions.log, functions.sqrt, functions.sqrt_slope]
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
    result = CASES[name].ours(Ball.exact(_balls(CASES[name]).midpoint))
    # the bound that the module derives, and the underflow allowance
    assert (result.radius <= 2.0**-43.9 * np.abs(result.midpoint) + 2.0**-999).all()


def test_beyond_the_largest_argument_and_at_the_end_of_a_domain_nothing_is_claimed() -> None:
    large = Ball.exact([-700.0, 700.0])
    with np.errstate(all="ignore"):
        for found in (
            *(CASES[name].ours(large) for name in ("exp", "sigmoid", "silu", "silu_slope", "softplus")),
            functions.exp(Ball.around([0.0], 601.0)),
            functions.rsqrt(Ball.around([1.0, -1.0], [1.0, 0.0])),
        ):
            assert not (found.radius < np.inf).any()


def test_the_two_parts_of_the_logarithm_of_two() -> None:
    parts = arb(functions._LN2_HIGH) + arb(functions._LN2_LOW)
    assert abs(parts - arb.const_log2()) < arb(2) ** -85
    for k in (1, 700, 865):  # 600 / ln 2
        assert Fraction(functions._LN2_HIGH * k) == Fraction(functions._LN2_HIGH) * k


@pytest.mark.parametrize("radius", [1.0, 1.5, 30.0, 590.0])
def test_a_wide_exponential_is_bounded_by_its_upper_end(radius: float) -> None:
    middles = np.array([-3.0, 0.0, 4.0])
    result = functions.exp(Ball.around(middles, radius))
    for middle, value, bound in zip(middles, result.midpoint, result.radius, strict=True):
        for place in (-1, 1):
            assert _within((arb(float(middle)) + place * arb(radius)).exp(), value, bound)
        upper = (arb(float(middle)) + arb(radius)).exp()
        assert arb(float(bound)) < 1.02 * upper  # r (1 + r) at 1 is 16% more than e − 1
