"""What a Mamba-2 cell does between scan and output projection: skip connection, gate and norm."""

import functools
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.blocks import blocks
from implicit.ops.fused import Arguments, Op, fused


def gated_norm(
    y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor, groups: int, epsilon: float
) -> Tensor:
    """Compute RMSNorm((y + D x) silu(gate)) weight, normalised within each group of features.

    Args:
        y: ``[..., heads, head_size]``.
        x: shaped like ``y``.
        D: ``[heads]``.
        gate: ``[..., heads · head_size]``.
        weight: ``[heads · head_size]``.
        groups: groups of neighbouring features, each normalised by itself.
        epsilon: ε in the norm's factor (mean square + ε)^(−1/2).

    Returns:
        ``[..., heads · head_size]``; differentiable to any order.

    Source:
        Dao & Gu 2024, arXiv 2405.21060; ``RMSNormGated`` of mamba_ssm with ``norm_before_gate=False``.

    Example:
        >>> y, x, gate = torch.tensor([[3.0], [0.0]]), torch.tensor([[0.0], [4.0]]), torch.full((2,), 100.0)
        >>> result = gated_norm(y, x, torch.ones(2), gate, torch.ones(2), groups=1, epsilon=0.0)
        >>> torch.allclose(result, torch.tensor([3.0, 4.0]) / 12.5**0.5)
        True
    """
    return _op(groups, epsilon)(y, x, D, gate, weight)[0]


@functools.cache
def _op(groups: int, epsilon: float) -> Op:
    def definition(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        skipped = (y + D[:, None] * x).flatten(-2)
        gated = (skipped * functional.silu(gate)).unflatten(-1, (groups, -1))
        factor = torch.rsqrt(gated.square().mean(dim=-1, keepdim=True) + epsilon)
        return ((gated * factor).flatten(-2) * weight,)

    def normalise(gated: Tensor) -> Tensor:
        """Normalise ``[rows, groups, features of a group]`` in place and return the factors."""
        factor = torch.linalg.vector_norm(gated, dim=-1, keepdim=True)
        factor.square_().div_(gated.shape[-1]).add_(epsilon).rsqrt_()
        gated.mul_(factor)
        return factor

    def forward(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        result = torch.empty_like(gate, memory_format=torch.contiguous_format)
        for result_rows, y_rows, x_rows, gate_rows in _row_blocks(result, y.flatten(-2), x.flatten(-2), gate):
            n = torch.addcmul(y_rows, D.repeat_interleave(x.shape[-1]), x_rows).mul_(
                functional.silu(gate_rows)
            )
            normalise(n.unflatten(-1, (groups, -1)))
            torch.mul(n, weight, out=result_rows)
        return (result,)

    def backward(inputs: Arguments, gradients: Arguments) -> Arguments:
        """Gradients, marked by a dot, of s = y + D x, q = s silu(gate), n = r q and the output o = weight n.

        ṅ = weight ȯ      q̇ = r (ṅ − n mean(n ṅ))      ẏ = ṡ = silu(gate) q̇      ẋ = D ṡ      Ḋ = Σ x ṡ
        """
        y, x, D, gate, weight = inputs
        (o_dot,) = gradients
        per_feature = D.repeat_interleave(x.shape[-1])
        s_dot, x_dot, gate_dot = (gate.new_empty(gate.shape) for _ in range(3))
        of_weight, of_skip = (torch.zeros_like(weight, dtype=torch.float64) for _ in range(2))
        for y_rows, x_rows, gate_rows, o_dot_rows, s_dot_rows, x_dot_rows, gate_dot_rows in _row_blocks(
            y.flatten(-2), x.flatten(-2), gate, o_dot, s_dot, x_dot, gate_dot
        ):
            s = torch.addcmul(y_rows, per_feature, x_rows)
            opened = functional.silu(gate_rows)
            n = s * opened
            factor = normalise(n.unflatten(-1, (groups, -1)))
            products = o_dot_rows * n
            of_weight += products.sum(0)
            mean = products.mul_(weight).unflatten(-1, (groups, -1)).mean(-1, keepdim=True)
            q_dot = torch.mul(o_dot_rows, weight, out=products).unflatten(-1, (groups, -1))
            q_dot.addcmul_(n.view_as(q_dot), mean, value=-1).mul_(factor)
            q_dot = q_dot.flatten(-2)
            torch.mul(opened, q_dot, out=s_dot_rows)
            torch.mul(s_dot_rows, per_feature, out=x_dot_rows)
            of_skip += torch.mul(s_dot_rows, x_rows, out=opened).sum(0)
            torch.ops.aten.silu_backward(q_dot.mul_(s), gate_rows, grad_input=gate_dot_rows)
        D_dot = of_skip.unflatten(-1, x.shape[-2:]).sum(-1).to(D.dtype)
        return s_dot.view(y.shape), x_dot.view(x.shape), D_dot, gate_dot, of_weight.to(weight.dtype)

    return fused(definition, forward, backward)


def _row_blocks(*parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of rows, ``[rows, features]``, of tensors ``[..., features]`` of one shape."""
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    for block in blocks(flat[0]):
        yield tuple(part[block] for part in flat)
