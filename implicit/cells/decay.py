"""The decay of a gated cell, in the form of Mamba-2: log α = −exp(A_log) softplus(input + step_bias)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Decay(nn.Module):
    """The logarithm of a decay in (0, 1) per head, from one input feature per head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.empty(heads).uniform_(1, 16)))
        self.step_bias = nn.Parameter(initial_step_bias(heads))

    def forward(self, x: Tensor) -> Tensor:
        """Return the log decays of ``[..., heads]``."""
        return -torch.exp(self.A_log) * functional.softplus(x + self.step_bias)

    def slope(self, x: Tensor) -> Tensor:
        """Return the derivative of the log decays of ``[..., heads]``, each in its own input."""
        return -torch.exp(self.A_log) * torch.sigmoid(x + self.step_bias)


def initial_step_bias(heads: int, smallest: float = 1e-3, largest: float = 0.1) -> Tensor:
    """Return the inverse softplus of step sizes drawn log-uniformly, the initialisation of mamba_ssm."""
    steps = torch.exp(torch.rand(heads) * (math.log(largest) - math.log(smallest)) + math.log(smallest))
    return steps + torch.log(-torch.expm1(-steps))
