"""The factor of a root mean square norm, in one place for all norms in PyTorch."""

from typing import Any

import torch
from torch import Tensor


def widened(x: Any) -> Any:
    """Return numbers of float16 in float32; all others as they are.

    Squares of float16 overflow from 256 on, and a gradient has the cube of the factor.
    """
    return x.float() if isinstance(x, Tensor) and x.dtype == torch.float16 else x


def norm_factor(squares: Any, epsilon: float) -> Any:
    """Return (s + ε)^(−1/2) of means or sums of squares; NaN where they overflow.

    The factor would be 0 there, the normalised vector 0, and z = 0 a fixed point of whatever overflows.

    Example:
        >>> norm_factor(torch.tensor([4.0, torch.inf]), 0.0)
        tensor([0.5000,    nan])
    """
    shifted = squares + epsilon
    if isinstance(squares, Tensor):  # a ball holds no infinity
        shifted = torch.add(shifted, squares, alpha=0)  # 0 · ∞ is NaN; a sum saves nothing for its gradient
    return torch.rsqrt(shifted)
