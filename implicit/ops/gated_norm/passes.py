"""Skip connection, gate and norm of a Mamba-2 cell, between scan and output projection, in PyTorch."""

import functools

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes
from implicit.ops.norm_factor import norm_factor, widened


def definition(groups: int, epsilon: float) -> Op:
    """Return the gated norm as a plain composition of differentiable ops; arguments as of `gated_norm`."""

    def gated_norm(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        skipped = (y + D[:, None] * x).flatten(-2)
        opened = skipped * functional.silu(gate)
        gated = widened(opened).unflatten(-1, (groups, -1))
        factor = norm_factor(gated.square().mean(dim=-1, keepdim=True), epsilon)
        return ((gated * factor).flatten(-2).to(opened.dtype) * weight,)

    return gated_norm


@functools.cache
def torch_op(groups: int, epsilon: float) -> Op:
    """Return the gated norm with passes of PyTorch written for a CPU; arguments as of `definition`."""

    def normalise(gated: Tensor) -> Tensor:
        """Normalise ``[rows, groups, features of a group]`` in place and return the factors."""
        factor = torch.linalg.vector_norm(gated, dim=-1, keepdim=True)
        factor = norm_factor(factor.square_().div_(gated.shape[-1]), epsilon)
        gated.mul_(factor)
        return factor

    def forward(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        gated = torch.addcmul(y, D[:, None], x).flatten(-2).mul_(functional.silu(gate))
        normalise(gated.unflatten(-1, (groups, -1)))
        return (gated.mul_(weight),)

    def backward(inputs: Arguments, gradients: Arguments) -> Arguments:
        """Gradients, marked by a dot, of s = y + D x, q = s silu(gate), n = r q and the output o = weight n.

        ṅ = weight ȯ      q̇ = r (ṅ − n mean(n ṅ))      ẏ = ṡ = silu(gate) q̇      ẋ = D ṡ      Ḋ = Σ x ṡ
        """
        y, x, D, gate, weight = inputs
        (o_dot,) = gradients
        by_group, by_head = (groups, -1), x.shape[-2:]
        s = torch.addcmul(y, D[:, None], x).flatten(-2)
        opened = functional.silu(gate)
        n = s * opened
        factor = normalise(n.unflatten(-1, by_group))
        products = o_dot * n
        weight_dot = products.flatten(0, -2).sum(0)
        mean = products.mul_(weight).unflatten(-1, by_group).mean(-1, keepdim=True)
        q_dot = torch.mul(o_dot, weight, out=products).unflatten(-1, by_group)
        q_dot = q_dot.addcmul_(n.unflatten(-1, by_group), mean, value=-1).mul_(factor).flatten(-2)
        s_dot = opened.mul_(q_dot).unflatten(-1, by_head)
        D_dot = torch.mul(s_dot, x, out=n.unflatten(-1, by_head)).flatten(0, -3).sum((0, 2))
        gate_dot = torch.ops.aten.silu_backward(q_dot.mul_(s), gate)
        return s_dot, s_dot * D[:, None], D_dot, gate_dot, weight_dot

    return op_with_passes(definition(groups, epsilon), forward, backward)
