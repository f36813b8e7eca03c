"""Root-mean-square norms, plain and gated, and vectors of unit length."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.ops.norm_factor import norm_factor, widened


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + ε) · weight over the last axis (Zhang & Sennrich 2019, arXiv 1910.07467).

    Example:
        >>> RMSNorm(2)(torch.tensor([3.0, 4.0])).square().mean().item()
        0.9999...
    """

    def __init__(self, features: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``[..., features]``."""
        return _normalised(x, self.epsilon) * self.weight

    def push_forward(self, x: Tensor, along: Tensor) -> Tensor:
        """Return the derivative at x applied to columns v: weight · r (v − x r² mean(x v)), r the factor."""
        factor = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon)
        means = (x[..., None, :] @ along) / x.shape[-1]  # [..., 1, columns]
        return (along - (x * factor.square())[..., None] * means) * (self.weight * factor)[..., None]


class GatedRMSNorm(nn.Module):
    """RMSNorm(x · silu(gate)) · weight, normalised within each group of features: the norm inside Mamba-2.

    Source: Dao & Gu 2024, arXiv 2405.21060; ``RMSNormGated`` of mamba_ssm with ``norm_before_gate=False``.

    Example:
        >>> norm = GatedRMSNorm(4, groups=2)
        >>> norm(torch.ones(4), torch.full((4,), 2.0))
        tensor([1.0000, 1.0000, 1.0000, 1.0000], grad_fn=<MulBackward0>)
    """

    def __init__(self, features: int, groups: int = 1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Gate and normalise ``[..., features]``."""
        gated = x * functional.silu(gate)
        if self.groups == 1:
            return _normalised(gated, self.epsilon) * self.weight
        return _normalised(gated.unflatten(-1, (self.groups, -1)), self.epsilon).flatten(-2) * self.weight


def _normalised(x: Tensor, epsilon: float) -> Tensor:
    wide = widened(x)
    normal = wide * norm_factor(wide.square().mean(dim=-1, keepdim=True), epsilon)
    return normal if wide is x else normal.to(x.dtype)


def unit_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Compute x / sqrt(Σ x² + ε) over the last axis, as DeltaNet normalises; a key of zeros stays one."""
    wide = widened(x)
    unit = wide * unit_norm_factor(wide, epsilon)
    return unit if wide is x else unit.to(x.dtype)


def unit_norm_factor(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return what `unit_norm` multiplies by, with a last axis of one."""
    return norm_factor(x.square().sum(dim=-1, keepdim=True), epsilon)
