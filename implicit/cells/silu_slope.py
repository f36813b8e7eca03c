"""The derivative of silu."""

import torch
from torch import Tensor


def silu_slope(x: Tensor) -> Tensor:
    """Return the derivative of x · sigmoid(x).

    Example:
        >>> silu_slope(torch.zeros(1))
        tensor([0.5000])
    """
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))
