# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The activation of Mamba-2 as functions that run inside kernels."""

import triton
import triton.language as tl


@triton.jit
def silu(x):
    """Return x / (1 + e^−x); an exponential that overflows leaves the zero that it should."""
    return x / (1.0 + tl.exp(-x))


@triton.jit
def silu_derivative(x):
    """Return σ(x) (1 + x (1 − σ(x))), σ the logistic function."""
    opened = 1.0 / (1.0 + tl.exp(-x))
    return opened * (1.0 + x * (1.0 - opened))
