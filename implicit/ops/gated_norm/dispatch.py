"""The public function of the gated norm: arguments checked, a backend chosen and run."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.backends import (
    AUTO,
    TRITON,
    Backend,
    Backends,
    Preference,
    TensorsRequest,
    at_most,
    check_shapes,
    element_types,
    entries,
    later,
    on_gpu_or_interpreted,
)
from implicit.ops.gated_norm.passes import torch_op
from implicit.ops.hand_written_passes import Op
from implicit.ops.norm_factor import widened
from implicit.ops.uncompiled import uncompiled

LARGEST = 8192
"""Largest group of features of the kernels: they hold one in registers."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """The properties of a call that decide which kernel can run it: also the features of a group."""

    features: int = 1


BACKENDS: Backends[Request, Callable[[int, float], Op]] = Backends(
    {
        "torch": Backend(torch_op),
        "triton": Backend(
            later("implicit.ops.gated_norm.triton_kernels", "triton_op"),
            (TRITON, element_types(), at_most(LARGEST, "features"), entries, on_gpu_or_interpreted()),
        ),
    },
    on_gpu=Preference("triton", "where every pass over memory counts"),
    elsewhere=Preference("torch", "for which its passes are written"),
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
