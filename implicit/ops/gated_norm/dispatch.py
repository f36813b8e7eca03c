"""The gated norm: its definition, its passes in PyTorch, and the public function, which chooses a backend."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.backends import AUTO, Backends, TensorsRequest, check_shapes, passes_or_kernels
from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes, uncompiled
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


LARGEST = 8192
"""Largest group of features of the kernels: they hold one in registers."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """The properties of a call that decide which kernel can run it: also the features of a group."""

    features: int = 1


BACKENDS: Backends[Request, Callable[[int, float], Op]] = passes_or_kernels(
    torch_op, "implicit.ops.gated_norm.triton_kernels", LARGEST, "features"
)


@uncompiled
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

    InputError for shapes that do not fit, tensors on several devices, an unknown backend or one that cannot
    run these tensors.

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

    Source: Dao & Gu 2024, arXiv 2405.21060; ``RMSNormGated`` of mamba_ssm with ``norm_before_gate=False``.

    Example:
        >>> import torch
        >>> y, x, gate = torch.tensor([[3.0], [0.0]]), torch.tensor([[0.0], [4.0]]), torch.full((2,), 100.0)
        >>> result = gated_norm(y, x, torch.ones(2), gate, torch.ones(2), groups=1, epsilon=0.0)
        >>> torch.allclose(result, torch.tensor([3.0, 4.0]) / 12.5**0.5)
        True
    """
    _check_shapes(y, x, D, gate, weight, groups)
    tensors = {"y": y, "x": x, "D": D, "gate": gate, "weight": weight}
    request = Request.of(tensors, features=weight.numel() // groups)
    op = BACKENDS[BACKENDS.choose(request, backend)].run(groups, epsilon)
    result: Tensor = op(*map(widened, tensors.values()))[0]
    return result.half() if all(one.dtype == torch.float16 for one in tensors.values()) else result


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
    check_shapes(expected, "y")
