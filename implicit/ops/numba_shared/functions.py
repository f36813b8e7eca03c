# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Elementary functions that a loop over many numbers is vectorised with.

The library's exp is called for one number at a time. This one is a polynomial: with n = round(x / ln 2) and
r = x − n ln 2, e^x = 2^n e^r. In numba a float32 times a literal is a float64, so every constant has a type.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from implicit.ops.numba_shared.jit import ordered_inner

_F = np.float32
# Cephes, expf: relative error below 2e-7 on |r| ≤ ln 2 / 2.
_C5, _C4, _C3 = _F(1.9875691500e-4), _F(1.3981999507e-3), _F(8.3334519073e-3)
_C2, _C1, _C0 = _F(4.1665795894e-2), _F(1.6666665459e-1), _F(5.0000001201e-1)
_LOG2_E, _HALF, _ONE, _ZERO = _F(math.log2(math.e)), _F(0.5), _F(1), _F(0)
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.12194440e-4)
_LOW, _HIGH = _F(-87.3), _F(89)  # below, e^x is 2^−126; above 88.4 infinite

_D = tuple(1 / math.factorial(n) for n in range(14))
_DLOG2_E = math.log2(math.e)
_DLN2_HIGH, _DLN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_DLOW, _DHIGH = -708.0, 710.0


def by_type(written):
    """Return a function for kernels, which ``written`` makes of the types of its arguments."""

    def called(*arguments):
        raise NotImplementedError

    overload(called)(written)
    return called


@ordered_inner
def _reduced(x, n, high, low):
    """Return x − n ln 2 in this order; in another, the two parts of ln 2 would be joined."""
    return (x - n * high) - n * low


@by_type
def exp(x):
    """e^x to less than 2 ulp; the least normal number where it is less, and early infinite by a half."""
    if x == types.float32:

        def single(x):
            x = _LOW if x < _LOW else x
            x = _HIGH if x > _HIGH else x
            n = np.floor(x * _LOG2_E + _HALF)
            n = n if n > _LOW * _LOG2_E - _ONE else _ZERO  # NaN
            r = _reduced(x, n, _LN2_HIGH, _LN2_LOW)
            p = ((((_C5 * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0
            bits = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))  # 2^n
            return (p * r * r + r + _ONE) * bits.view(np.float32)

        return single

    def double(x):
        x = _DLOW if x < _DLOW else x
        x = _DHIGH if x > _DHIGH else x
        n = np.floor(x * _DLOG2_E + 0.5)
        n = n if n > -1100.0 else 0.0  # NaN
        r = _reduced(x, n, _DLN2_HIGH, _DLN2_LOW)
        p = _D[13]
        p = p * r + _D[12]
        p = p * r + _D[11]
        p = p * r + _D[10]
        p = p * r + _D[9]
        p = p * r + _D[8]
        p = p * r + _D[7]
        p = p * r + _D[6]
        p = p * r + _D[5]
        p = p * r + _D[4]
        p = p * r + _D[3]
        p = p * r + 0.5
        p = p * r + 1.0
        bits = np.int64((np.int64(n) + np.int64(1023)) << np.int64(52))  # 2^n
        return (p * r + 1.0) * bits.view(np.float64)

    return double


def _kind(x):
    """The type of the constants that are met with numbers of a type."""
    return np.float32 if x == types.float32 else np.float64


@by_type
def sigmoid(x):
    """1 / (1 + e^(−x))."""
    one = _kind(x)(1)
    return lambda x: one / (one + exp(-x))


@by_type
def softplus(x):
    """log(1 + e^x), and x above 20, as PyTorch has it."""
    kind = _kind(x)
    most = kind(20)
    return lambda x: x if x > most else kind(math.log1p(kind(math.exp(x))))


@by_type
def zero_like(array):
    """0 of the element type of an array."""
    zero = _kind(array.dtype)(0)
    return lambda array: zero


@by_type
def one_like(array):
    """1 of the element type of an array."""
    one = _kind(array.dtype)(1)
    return lambda array: one


@by_type
def norm_factor(squares, count, epsilon):
    """(mean of so many squares + ε)^(−1/2); NaN where they overflow, as in `implicit.ops.norm_factor`."""
    kind = _kind(squares)
    one, infinite, none = kind(1), kind(np.inf), kind(np.nan)
    return lambda squares, count, epsilon: (
        one / np.sqrt(squares / kind(count) + epsilon) if squares < infinite else none
    )


@by_type
def silu_slope(x):
    """The derivative of x sigmoid(x)."""
    one = _kind(x)(1)

    def slope(x):
        gate = sigmoid(x)
        return gate * (one + x * (one - gate))

    return slope
