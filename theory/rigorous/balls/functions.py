"""Functions of balls and their slopes, each with a proved bound of its error.

A platform's functions come without a proof of their accuracy, so they are computed here from + − × ÷ and √
alone, which IEEE 754 rounds correctly: exp by reduction to a short interval and its Taylor polynomial,
log(1 + t) on [0, 1] by the series of 2 artanh; each ``_…_at`` says how large its relative error at a float
can be. That bounds the error at a midpoint m. Over a ball |x − m| ≤ r

- exp, the sigmoid, SiLU, softplus, 1/√x, sin, cos, GELU and its slope are bounded by
  |f(x) − f(m)| ≤ |f'(m)| r + sup|f''| r² / 2;
- a monotone function lies between its values at the two ends, and one that falls with |x| between those at
  the least and the largest |x|: nearly the smallest ball there is, however wide the argument.

A function that is not defined on a whole ball, and any of the second kind of an infinite one, is NaN, so
that nothing follows from it or its product with zero. Where a slope does not exist it is infinite (|x| and
clamping, which are Lipschitz: times a derivative that is exactly zero it is zero) or NaN (√ at 0, which is
not).
"""

from collections.abc import Callable

import numpy as np

from theory.rigorous.balls.ball import UNDERFLOW, UNIT_ROUNDOFF, Array, Ball, only_where, round_up

RELATIVE_ERROR = 2.0**-44
"""Relative error of every function here at a point; the bounds derived below are under half of it."""
MAX_ARGUMENT = 600.0
"""Beyond ±600 nothing is computed: the ball is infinite."""

# ln 2 = high + low to 2^-86; high has 33 bits, so that k · high is exact for |k| < 2^20 (FreeBSD, e_exp.c).
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_TAYLOR_DEGREE = 15
_ARTANH_TERMS = 20


def exp(x: Ball) -> Ball:
    """Return e^x: over the ball e^m (1 ± (e^r − 1)); e^r − 1 ≤ r (1 + r) for r ≤ 1, and ≤ e^r beyond."""
    value = _exp_at(x.midpoint)
    beyond = _exp_at(x.radius) * (1 + 2 * RELATIVE_ERROR)
    relative = np.where(x.radius <= 1, x.radius * (1 + x.radius), beyond)
    return Ball(value, round_up(value * (relative * (1 + RELATIVE_ERROR) + RELATIVE_ERROR) + UNDERFLOW))


def sigmoid(x: Ball) -> Ball:
    """Return σ(x) = 1 / (1 + e^{−x}), with |σ'| = σ (1 − σ) and |σ''| ≤ 1/10."""
    value = _sigmoid_at(x.midpoint)
    slope = np.minimum(value * _sigmoid_at(-x.midpoint), 0.25)
    return _around(value, slope, 0.1, x.radius)


def silu(x: Ball) -> Ball:
    """Return x σ(x); |silu''| ≤ 1/2, see `silu_slope`."""
    value = x.midpoint * _sigmoid_at(x.midpoint)
    slope = silu_slope(Ball.exact(x.midpoint)).magnitude
    return _around(value, slope, 0.5, x.radius)


def silu_slope(x: Ball) -> Ball:
    """Return silu'(x) = σ(x) (1 + x σ(−x)), which is Lipschitz with constant 1/2.

    silu'' = σ' (2 − x tanh(x/2)), and 0 ≤ σ' ≤ 1/4 and σ'(x) |x| ≤ |x| e^{−|x|} ≤ 1/e put it into
    [−1/e, 1/2].
    """
    m = x.midpoint
    left, right = _sigmoid_at(m), _sigmoid_at(-m)
    # 1 + m σ(−m) may cancel: its error is relative to its terms.
    error = RELATIVE_ERROR * left * (1 + np.abs(m) * right) * 4
    return Ball(left * (1 + m * right), round_up(error + 0.5 * x.radius + UNDERFLOW))


def softplus(x: Ball) -> Ball:
    """Return log(1 + e^x), whose slope is the sigmoid, and |softplus''| ≤ 1/4.

    log(1 + e^x) = max(x, 0) + log(1 + e^{−|x|}), and log(1 + t) = 2 artanh(t / (2 + t)).
    """
    s = _exp_at(-np.abs(x.midpoint))
    s = s / (2 + s)  # at most 1/3: the first term left out is below 9⁻²⁰ of the first one
    series = np.zeros_like(s)
    for k in reversed(range(_ARTANH_TERMS)):
        series = series * (s * s) + 1 / (2 * k + 1)
    value = np.maximum(x.midpoint, 0) + 2 * s * series
    return _around(value, _sigmoid_at(x.midpoint), 0.25, x.radius)


def rsqrt(x: Ball) -> Ball:
    """Return 1/√x; NaN unless x > 0.

    |x^{−1/2} − m^{−1/2}| ≤ r / (2 (m − r)^{3/2}) for |x − m| ≤ r < m.
    """
    positive = (x.midpoint > 0) & (x.mignitude > 0)
    least = np.where(positive, x.mignitude, 1.0)
    midpoint = 1 / np.sqrt(np.where(positive, x.midpoint, 1.0))
    # one after the other: their product overflows, or underflows, before the quotient does
    spread = x.radius / least / (2 * np.sqrt(least))
    return only_where(positive, Ball(midpoint, round_up(spread + 4 * UNIT_ROUNDOFF * midpoint + UNDERFLOW)))


def _around(value: Array, slope: Array, curvature: float, radius: Array) -> Ball:
    """The ball of f over a ball, from its value and slope at the midpoint as computed, and sup |f''|.

    The slope may be a product of two computed functions, and is given twice their error and more.
    """
    spread = radius * (np.abs(slope) * (1 + 4 * RELATIVE_ERROR) + 0.5 * curvature * radius)
    return Ball(value, round_up(spread + RELATIVE_ERROR * np.abs(value) + UNDERFLOW))


def _exp_at(x: Array) -> Array:
    """Exp at float64 numbers, with a relative error below 2^-45; infinite beyond the largest argument.

    With k the integer near x / ln 2, r = x − k ln 2 stays below 0.36 and e^x = 2^k e^r. For |k| < 1024 the
    three roundings of r and the error of ln 2 are together below 2^-51. The polynomial of degree 15 leaves
    out less than r¹⁶/16! e^r < 2^-66. Horner's rule, with three roundings in each of its 15 steps, adds less
    than 46 u e^|r|, relative to e^r at most 46 u e^{2|r|} < 2^-46.
    """
    inside = np.abs(x) <= MAX_ARGUMENT
    x = np.where(inside, x, 0.0)
    k = np.rint(x / _LN2_HIGH)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    polynomial = np.ones_like(r)
    for degree in range(_TAYLOR_DEGREE, 0, -1):
        polynomial = 1 + polynomial * r / degree
    return np.where(inside, np.ldexp(polynomial, k.astype(int)), np.inf)


def _sigmoid_at(x: Array) -> Array:
    """The sigmoid at float64 numbers, with a relative error below 2^-44 / 1.5; NaN where it is not computed.

    That of e^{−x} is at most 2^-45; the sum 1 + e^{−x} has no larger one, and two roundings follow.
    """
    inside = np.abs(x) <= MAX_ARGUMENT
    return np.where(inside, 1 / (1 + _exp_at(-np.where(inside, x, 0.0))), np.nan)


Function = Callable[[Ball], Ball]
ERROR = 2.0**-42
"""Relative error of every transcendental function here at a float; the derived bounds are smaller."""
ROUNDING = 2.0**-50
"""Relative error of an algebraic function: less than eight roundings."""
LARGEST_ANGLE = 1e5
"""Beyond it sin and cos are only known to lie in [−1, 1]."""
LARGEST_POWER = 64

_HALF_PI_HIGH = float.fromhex("0x1.921fb54400000p+0")  # 33 bits: k · high is exact for |k| < 2^20
_HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")  # their sum is π/2 to 2^-86 (FreeBSD, e_rem_pio2.c)
_TWO_OVER_ROOT_PI = float.fromhex("0x1.20dd750429b6dp+0")
_ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")


def log(x: Ball) -> Ball:
    """Return log x; NaN unless x > 0."""
    return _between(_log_at, x, ERROR, defined=x.lower > 0)


def sqrt(x: Ball) -> Ball:
    """Return √x; NaN unless x ≥ 0."""
    return _between(np.sqrt, x, ROUNDING, defined=x.lower >= 0)


def sqrt_slope(x: Ball) -> Ball:
    """Return 1 / (2 √x), NaN unless x > 0."""
    return _nowhere_else(_between(lambda t: -0.5 / np.sqrt(t), x, ROUNDING, defined=x.lower > 0), sign=-1)


def rsqrt_slope(x: Ball) -> Ball:
    """Return −x^{−3/2} / 2, NaN unless x > 0."""
    return _nowhere_else(_between(lambda t: -0.5 / (t * np.sqrt(t)), x, ROUNDING, defined=x.lower > 0))


def power(x: Ball, exponent: int) -> Ball:
    """Return x^n for 0 ≤ n ≤ 64, by multiplication."""
    assert 0 <= exponent <= LARGEST_POWER

    def at(t: Array) -> Array:
        result = np.ones_like(t)
        for _ in range(exponent):
            result = result * t
        return result

    error = (exponent + 1) * 2.0**-52
    found = _between(at, x, error) if exponent % 2 else _by_size(at, x, error, rising=True)
    zero = x.is_zero & (exponent > 0)  # no less than zero, so that a root is defined there
    return Ball(np.where(zero, 0.0, found.midpoint), np.where(zero, 0.0, found.radius))


def tanh(x: Ball) -> Ball:
    """Return tanh x."""
    return _between(_tanh_at, x, ERROR)


def tanh_slope(x: Ball) -> Ball:
    """Return tanh'(x) = 1 / cosh² x, which falls with |x|."""
    return _by_size(lambda t: 4 * _bell_at(2 * t), x, ERROR, limit=300.0)


def sigmoid_slope(x: Ball) -> Ball:
    """Return σ'(x) = σ(x) σ(−x), which falls with |x|."""
    return _by_size(_bell_at, x, ERROR, limit=600.0)


def sin(x: Ball) -> Ball:
    """Return sin x; |sin''| ≤ 1."""
    return _oscillation(x, shift=0)


def cos(x: Ball) -> Ball:
    """Return cos x; |cos''| ≤ 1."""
    return _oscillation(x, shift=1)


def erf(x: Ball) -> Ball:
    """Return the error function."""
    return _between(_erf_at, x, ERROR)


def erf_slope(x: Ball) -> Ball:
    """Return 2/√π e^{−x²}, which falls with |x|."""
    return _by_size(_gauss_at, x, ERROR, limit=24.0)


def gelu(x: Ball) -> Ball:
    """Return x Φ(x), with Φ(x) = (1 + erf(x/√2)) / 2; |gelu''| = φ(x) |2 − x²| ≤ 2 φ(0) < 4/5."""
    m = x.midpoint
    value = m * _normal_at(m)
    slope = np.abs(_gelu_slope_at(m)) + 2 * ERROR
    spread = x.radius * (slope + 0.4 * x.radius)
    # erf near −1 cancels: the error is relative to x, not to x Φ(x)
    return _finite(Ball(value, round_up(spread + ERROR * np.abs(m) + UNDERFLOW)), x)


def gelu_slope(x: Ball) -> Ball:
    """Return gelu'(x) = Φ(x) + x φ(x), which is Lipschitz with constant 4/5."""
    return _finite(Ball(_gelu_slope_at(x.midpoint), round_up(2 * ERROR + 0.8 * x.radius)), x)


def absolute(x: Ball) -> Ball:
    """Return |x|."""
    found = _hull(x.mignitude, x.magnitude, x)
    return Ball(
        np.where(x.radius == 0, np.abs(x.midpoint), found.midpoint),
        np.where(x.radius == 0, 0.0, found.radius),
    )


def absolute_slope(x: Ball) -> Ball:
    """Return the sign of x, infinite where x may be zero."""
    return _steps(np.sign(x.midpoint), (x.lower > 0) | (x.upper < 0), x)


def clamp(x: Ball, least: float = -np.inf, largest: float = np.inf) -> Ball:
    """Return x where it lies between two numbers, and the nearer of them elsewhere; ReLU has 0 and ∞."""
    inside = (x.lower >= least) & (x.upper <= largest)
    clamped = _hull(np.clip(x.lower, least, largest), np.clip(x.upper, least, largest), x)
    return Ball(np.where(inside, x.midpoint, clamped.midpoint), np.where(inside, x.radius, clamped.radius))


def clamp_slope(x: Ball, least: float = -np.inf, largest: float = np.inf) -> Ball:
    """Return 1 between the two numbers and 0 beyond, infinite where a ball may reach one of them."""
    inside = (x.lower > least) & (x.upper < largest)
    return _steps(inside.astype(np.float64), inside | (x.upper < least) | (x.lower > largest), x)


def _between(at: Callable[[Array], Array], x: Ball, error: float, defined: np.ndarray | bool = True) -> Ball:
    """The ball of an increasing function, from its values at the ends."""
    one = np.ones_like(x.midpoint)
    ends = [np.where(defined & np.isfinite(x.radius), end, one) for end in (x.lower, x.upper)]
    low, high = (at(end) for end in ends)
    found = _hull(low - error * np.abs(low) - UNDERFLOW, high + error * np.abs(high) + UNDERFLOW, x)
    return only_where(defined, found)


def _by_size(
    at: Callable[[Array], Array], x: Ball, error: float, *, limit: float = np.inf, rising: bool = False
) -> Ball:
    """The ball of a non-negative function of |x| that rises, or falls and is not computed beyond a limit."""
    least, largest = x.mignitude, np.where(np.isfinite(x.radius), x.magnitude, 1.0)
    nearest, farthest = at(np.minimum(least, limit)), at(np.minimum(largest, limit))
    low, high = (nearest, farthest) if rising else (np.where(largest > limit, 0.0, farthest), nearest)
    return _hull(np.maximum(low * (1 - error) - UNDERFLOW, 0.0), high * (1 + error) + UNDERFLOW, x)


def _hull(low: Array, high: Array, x: Ball) -> Ball:
    """The ball around two ends, whose own rounding is taken into account; infinite where x is."""
    middle = 0.5 * low + 0.5 * high
    spread = np.maximum(high - middle, middle - low)
    slack = 2 * ROUNDING * np.maximum(np.abs(low), np.abs(high))
    # An exact number that a function leaves as it is stays exact.
    return _finite(Ball(middle, np.where(low == high, 0.0, round_up(spread + slack + UNDERFLOW))), x)


def _finite(found: Ball, x: Ball) -> Ball:
    """The ball where both it and the argument are finite: another one may stand for no number at all."""
    known = np.isfinite(x.midpoint) & np.isfinite(x.radius)
    return only_where(known & np.isfinite(found.midpoint) & np.isfinite(found.radius), found)


def _nowhere_else(slope: Ball, sign: int = 1) -> Ball:
    """NaN where a slope is not finite: no product with it, not even with zero, is a number."""
    return Ball(np.where(np.isfinite(slope.radius), sign * slope.midpoint, np.nan), slope.radius)


def _steps(slope: Array, known: np.ndarray, x: Ball) -> Ball:
    slope = np.where(np.isnan(x.midpoint), np.nan, slope)
    return Ball(slope, np.where(known & np.isfinite(x.radius), 0.0, np.inf))


def _log_at(x: Array) -> Array:
    """Log of positive floats. With x = 2^k f, f from √½ to √2, it is k ln 2 + 2 artanh((f − 1) / (f + 1)).

    f − 1 is exact (Sterbenz), so that s = (f − 1) / (f + 1) has a relative error below 2u, the series of 14
    terms in s² < 1/33 one below 2^-47, and leaves out less than 33^-14 < 2^-70. |k ln 2| ≥ 2 |log f| for
    k ≠ 0: the sum loses at most a factor of 3.
    """
    f, k = np.frexp(x)
    small = f < _ROOT_HALF
    f, k = np.where(small, 2 * f, f), np.where(small, k - 1, k)
    s = (f - 1) / (f + 1)
    series = np.zeros_like(s)
    for term in reversed(range(14)):
        series = series * (s * s) + 1 / (2 * term + 1)
    return k * _LN2_HIGH + (2 * s * series + k * _LN2_LOW)


def _tanh_at(x: Array) -> Array:
    """Tanh, by e^{2|x|} − 1 = q from its Taylor polynomial up to |x| = 0.17, and by e = e^{−2|x|} beyond.

    q / (q + 2) errs by less than 2^-45; of (1 − e) / (1 + e) the numerator by 2^-45 e / (1 − e) < 2^-43.6,
    the denominator by less than half of 2^-45. Beyond 22 the distance from 1 is below 2^-62.
    """
    size = np.abs(x)
    t = 2 * np.minimum(size, 0.17)
    polynomial = np.ones_like(t)
    for degree in range(15, 1, -1):
        polynomial = 1 + polynomial * t / degree
    q, e = t * polynomial, _exp_at(-2 * np.minimum(size, 22.0))
    value = np.where(size <= 0.17, q / (q + 2), np.where(size <= 22, (1 - e) / (1 + e), 1.0))
    return np.asarray(np.copysign(value, x))


def _bell_at(size: Array) -> Array:
    """σ(x) σ(−x) = e / (1 + e)² with e = e^{−|x|}, for |x| ≤ 600: to 2^-43.5."""
    e = _exp_at(-size)
    return e / np.square(1 + e)


def _gauss_at(size: Array) -> Array:
    """2/√π e^{−x²} for |x| ≤ 24: to 2^-43, as the rounding of x² ≤ 576 is one of 576 u."""
    return _TWO_OVER_ROOT_PI * _exp_at(-np.square(size))


def _erf_at(x: Array) -> Array:
    """Erf = 2/√π x e^{−x²} Σ (2 x²)^n / (1 · 3 ⋯ (2n + 1)), a sum of positive terms, up to |x| = 6.

    Horner's rule with 120 steps of five roundings errs by less than 600 u, e^{−x²} by 2^-45 + 36 u; together
    below 2^-43. The rest is below 2^-90 of the sum. Beyond 6 the distance from ±1 is below 2^-55.
    """
    t = np.clip(x, -6.0, 6.0)
    squares = t * t
    series = np.ones_like(t)
    for term in range(120, 0, -1):
        series = 1 + series * (2 * squares) / (2 * term + 1)
    value = _TWO_OVER_ROOT_PI * t * _exp_at(-squares) * series
    return np.where(np.abs(x) > 6, np.sign(x), value)


def _normal_at(x: Array) -> Array:
    """Φ to 2^-43, not relative to its value."""
    return 0.5 + 0.5 * _erf_at(_ROOT_HALF * x)


def _gelu_slope_at(x: Array) -> Array:
    """Φ(x) + x φ(x) to 2^-42; φ(x) = e^{−x²/2} / √(2π), and x φ(x) is below 2^-800 beyond 34."""
    density = 0.5 * _ROOT_HALF * _TWO_OVER_ROOT_PI * _exp_at(-0.5 * np.square(np.clip(x, -34.0, 34.0)))
    return _normal_at(x) + np.where(np.abs(x) > 34, 0.0, x * density)


def _oscillation(x: Ball, shift: int) -> Ball:
    """Sin (x + shift π/2) by its value and slope at the midpoint, and never beyond [−1, 1]."""
    near = np.abs(x.midpoint) <= LARGEST_ANGLE
    m = np.where(near, x.midpoint, 0.0)
    value, error = _sine_at(m, shift)
    slope, slope_error = _sine_at(m, shift + 1)
    spread = x.radius * (np.abs(slope) + slope_error + 0.5 * x.radius)
    found = Ball(value, round_up(spread + error + UNDERFLOW))
    low, high = np.where(near, found.lower, -1.0), np.where(near, found.upper, 1.0)
    return _hull(np.maximum(low, -1.0), np.minimum(high, 1.0), x)


def _sine_at(x: Array, shift: int) -> tuple[Array, Array]:
    """Sin (x + shift π/2) for |x| ≤ 10⁵, and a bound of its error.

    With k the integer near x / (π/2) < 2^16, x − k · high is exact or rounded once, and k · low < 4e-6: the
    remainder r, at most 0.79, errs by less than 2^-52, and not at all for k = 0. The Taylor polynomials leave
    out less than 0.79²⁰/20! < 2^-66 and err by a few roundings.
    """
    k = np.rint(x / _HALF_PI_HIGH)
    r = (x - k * _HALF_PI_HIGH) - k * _HALF_PI_LOW
    squares = r * r
    sine, cosine = np.ones_like(r), np.ones_like(r)
    for term in range(9, 0, -1):
        sine = 1 - sine * squares / (2 * term * (2 * term + 1))
        cosine = 1 - cosine * squares / (2 * term * (2 * term - 1))
    quarter = (k.astype(np.int64) + shift) % 4
    value = np.where(quarter % 2 == 0, r * sine, cosine) * np.where(quarter < 2, 1.0, -1.0)
    return value, ERROR * np.abs(value) + np.where(k != 0, ROUNDING, 0.0)


RULES: dict[str, tuple[Function, Function]] = {
    "exp": (exp, exp),
    "log": (log, Ball.reciprocal),
    "sqrt": (sqrt, sqrt_slope),
    "rsqrt": (rsqrt, rsqrt_slope),
    "reciprocal": (Ball.reciprocal, lambda x: -power(x, 2).reciprocal()),
    "square": (lambda x: power(x, 2), lambda x: x * 2.0),
    "tanh": (tanh, tanh_slope),
    "sigmoid": (sigmoid, sigmoid_slope),
    "sin": (sin, cos),
    "cos": (cos, lambda x: -sin(x)),
    "erf": (erf, erf_slope),
    "abs": (absolute, absolute_slope),
}
"""Functions of one number that take nothing else, with their slopes."""
