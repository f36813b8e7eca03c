"""Functions of balls: exp, the sigmoid, SiLU, softplus and 1/√x, each with a proved bound of its error.

A platform's exp comes without a proof of its accuracy, so the transcendental functions are computed here from
+ − × ÷ alone: exp by reduction to a short interval and its Taylor polynomial, log(1 + t) on [0, 1] by the
series of 2 artanh. That bounds the error at a midpoint m; over a ball |x − m| ≤ r follows

    |f(x) − f(m)| ≤ |f'(m)| r + sup|f''| r² / 2 .
"""

import numpy as np

from theory.rigorous.balls.ball import UNDERFLOW, UNIT_ROUNDOFF, Array, Ball, only_where, round_up

RELATIVE_ERROR = 2.0**-44
"""Of every function here at a point; what is derived below stays under half of it."""
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
