"""The public function of the short convolution: arguments checked, a backend chosen and run."""

from dataclasses import dataclass

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
    element_types,
    entries,
    later,
    on_gpu_or_interpreted,
)
from implicit.ops.hand_written_passes import Op
from implicit.ops.short_convolution.passes import torch_op
from implicit.ops.uncompiled import uncompiled

LARGEST = 8
"""Largest width of the kernels: they are compiled for all taps."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """The properties of a call that decide which kernel can run it: also the taps of the convolution."""

    width: int = 1


BACKENDS: Backends[Request, Op] = Backends(
    {
        "torch": Backend(torch_op),
        "triton": Backend(
            later("implicit.ops.short_convolution.triton_kernels", "triton_op"),
            (TRITON, element_types(), at_most(LARGEST, "width"), entries, on_gpu_or_interpreted()),
        ),
    },
    on_gpu=Preference("triton", "where every pass over memory counts"),
    elsewhere=Preference("torch", "for which its passes are written"),
)


@uncompiled
def short_convolution(padded: Tensor, weight: Tensor, bias: Tensor, backend: str = AUTO) -> Tensor:
    """Compute silu(bias_c + Σ_k weight_ck padded_{t+k, c}).

    Args:
        padded: width − 1 tokens before the sequence and then the sequence, ``[batch, width − 1 + length,
            channels]``.
        weight: ``[channels, width]``; the last tap is that of the token itself.
        bias: ``[channels]``.
        backend: who computes values and first derivatives: ``"torch"`` (passes of PyTorch), ``"triton"`` (a
            kernel each, float32 or bfloat16 with sums in float32) or ``"auto"``, the kernels on a GPU.

    Returns:
        ``[batch, length, channels]``; differentiable to any order.

    Raises:
        InputError: for shapes that do not fit, tensors on several devices, an unknown backend or one that
            cannot run these tensors.

    Source:
        Dao & Gu 2024, arXiv 2405.21060; ``causal_conv1d`` with ``activation="silu"``.

    Example:
        >>> import torch
        >>> padded = torch.tensor([[[0.0], [1.0], [2.0]]])  # one token before a sequence of two
        >>> result = short_convolution(padded, torch.tensor([[1.0, 10.0]]), torch.zeros(1))
        >>> torch.allclose(result, torch.nn.functional.silu(torch.tensor([[[10.0], [21.0]]])))
        True
    """
    _check_shapes(padded, weight, bias)
    tensors = {"padded": padded, "weight": weight, "bias": bias}
    request = Request.of(tensors, width=weight.shape[1])
    return BACKENDS[BACKENDS.choose(request, backend)].run(padded, weight, bias)[0]


def _check_shapes(padded: Tensor, weight: Tensor, bias: Tensor) -> None:
    if weight.ndim != 2 or 0 in weight.shape:
        raise InputError(
            f"weight has shape {tuple(weight.shape)}; give it as [channels, width], at least 1 of each"
        )
    channels, width = weight.shape
    if bias.shape != (channels,):
        raise InputError(f"bias has shape {tuple(bias.shape)}; with weight as given it must be ({channels},)")
    if padded.ndim != 3 or padded.shape[2] != channels or padded.shape[1] < width:
        raise InputError(
            f"padded has shape {tuple(padded.shape)}; with weight as given it must be "
            f"[batch, {width - 1} + length, {channels}], length at least 1"
        )
