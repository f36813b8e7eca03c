"""Vectors scaled to unit length."""

from torch import Tensor

from implicit.ops.norm_factor import norm_factor


def unit_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Compute x / sqrt(Σ x² + ε) over the last axis, as DeltaNet's keys and queries are normalised.

    With ε the length is a little below 1, and a key of zeros stays one.

    Example:
        >>> import torch
        >>> unit_norm(torch.tensor([3.0, 4.0]))
        tensor([0.6000, 0.8000])
    """
    return x * unit_norm_factor(x, epsilon)


def unit_norm_factor(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return what `unit_norm` multiplies by, with a last axis of one."""
    return norm_factor(x.square().sum(dim=-1, keepdim=True), epsilon)
