"""The derivative of silu."""

import torch
from torch import Tensor


def silu_slope(x: Tensor) -> Tensor:
    """Return the derivative of x · sigmoid(x)."""
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))
