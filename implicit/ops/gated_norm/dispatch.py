"""What a Mamba-2 cell does between scan and output projection: skip connection, gate and norm."""

import functools

import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.around_scan import AUTO, TRITON, Request, choose
from implicit.ops.hand_written_passes import Arguments, Backward, Op, fused


def gated_norm(
    y: Tensor,
    x: Tensor,
    D: Tensor,
    gate: Tensor,
    weight: Tensor,
    groups: int,
    epsilon: float,
    backend: str = AUTO,
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
        backend: who computes values and first derivatives: ``"torch"`` (passes of PyTorch), ``"triton"`` (a
            kernel each, float32 or bfloat16 with sums in float32) or ``"auto"``, the kernels on a GPU.

    Returns:
        ``[..., heads · head_size]``; differentiable to any order.

    Raises:
        InputError: for shapes that do not fit, tensors on several devices, an unknown backend or one that
            cannot run these tensors.

    Source:
        Dao & Gu 2024, arXiv 2405.21060; ``RMSNormGated`` of mamba_ssm with ``norm_before_gate=False``.

    Example:
        >>> y, x, gate = torch.tensor([[3.0], [0.0]]), torch.tensor([[0.0], [4.0]]), torch.full((2,), 100.0)
        >>> result = gated_norm(y, x, torch.ones(2), gate, torch.ones(2), groups=1, epsilon=0.0)
        >>> torch.allclose(result, torch.tensor([3.0, 4.0]) / 12.5**0.5)
        True
    """
    _check_shapes(y, x, D, gate, weight, groups)
    tensors = {"y": y, "x": x, "D": D, "gate": gate, "weight": weight}
    request = Request.of(tensors, "features", weight.numel() // groups)
    return _op(groups, epsilon, choose(backend, request))(*tensors.values())[0]


def _check_shapes(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor, groups: int) -> None:
    if y.ndim < 2:
        raise InputError(f"y has shape {tuple(y.shape)}; give it as [..., heads, head_size]")
    *tokens, heads, head_size = y.shape
    features = heads * head_size
    if groups < 1 or not features or features % groups:
        raise InputError(f"groups is {groups}; it must divide heads * head_size = {features}, at least 1")
    expected = {
        "x": (x, y.shape),
        "D": (D, (heads,)),
        "gate": (gate, (*tokens, features)),
        "weight": (weight, (features,)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor.shape != shape:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}; with y as given it must be {tuple(shape)}"
            )


@functools.cache
def _op(groups: int, epsilon: float, backend: str) -> Op:
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

    if backend == TRITON:
        return fused(definition, *_kernels(groups, epsilon))
    return fused(definition, forward, backward)


def _kernels(groups: int, epsilon: float) -> tuple[Op, Backward]:
    """Both passes as Triton kernels."""
    from implicit.ops.gated_norm import triton_kernels as kernels

    def forward(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        launch, output = kernels.forward(y, x, D, gate, weight, groups, epsilon)
        launch.run()
        return (output,)

    def backward(inputs: Arguments, gradients: Arguments) -> Arguments:
        D, weight = inputs[2], inputs[4]
        launch, y_dot, x_dot, gate_dot, D_sums, weight_sums = kernels.backward(
            inputs, gradients[0], groups, epsilon
        )
        launch.run()
        D_dot = D_sums.unflatten(-1, (len(D), -1)).sum((0, 2)).to(D.dtype)
        return y_dot, x_dot, D_dot, gate_dot, weight_sums.sum(0).to(weight.dtype)

    return forward, backward
