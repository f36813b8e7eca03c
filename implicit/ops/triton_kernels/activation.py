# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The activation of Mamba-2 as functions that run inside kernels."""

import triton
import triton.language as tl


@triton.jit
def logistic(x):
    """Return σ(x) = 1 / (1 + e^−x), by an exponential that does not overflow."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1.0 + small)


@triton.jit
def silu(x):
    """Return x σ(x)."""
    return x * logistic(x)


@triton.jit
def silu_derivative(x):
    """Return σ(x) (1 + x (1 − σ(x)))."""
    opened = logistic(x)
    return opened * (1.0 + x * (1.0 - opened))
