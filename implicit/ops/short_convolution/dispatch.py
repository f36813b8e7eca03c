"""The short convolution: its definition, its passes in PyTorch, and the public function over the backends."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.backends import AUTO, Backends, TensorsRequest, passes_or_kernels
from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes, uncompiled


def definition(padded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
    """Compute the convolution and its activation in differentiable ops, as `short_convolution` does."""
    length = padded.shape[1] - weight.shape[1] + 1
    shifted = (padded[:, k : k + length] * tap for k, tap in enumerate(weight.unbind(1)))
    return (functional.silu(bias + sum(shifted)),)


def _forward(padded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
    return (functional.silu(_convolve(padded, weight, bias), inplace=True),)


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    """q̇ = silu'(q) ẏ; a padded token gets Σ_k weight_k q̇_{t−k}, a tap Σ_t q̇_t padded_{t+k}."""
    padded, weight, bias = inputs
    (y_dot,) = gradients
    before = weight.shape[1] - 1
    length = padded.shape[1] - before
    q = _convolve(padded, weight, bias)
    around = padded.new_zeros(len(padded), before + length + before, len(weight))
    q_dot = around[:, before : before + length]
    torch.ops.aten.silu_backward(y_dot, q, grad_input=q_dot)
    padded_dot = _convolve(around, weight.flip(1), None)
    products = q  # its memory
    taps_dot = [
        torch.mul(q_dot, padded[:, k : k + length], out=products).sum((0, 1)) for k in range(before + 1)
    ]
    return padded_dot, torch.stack(taps_dot, dim=1), q_dot.sum((0, 1))


def _convolve(padded: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution without activation."""
    if padded.dtype == torch.float32 and padded.device.type == "cpu" and torch.backends.mkldnn.is_available():
        # As an image of height 1 whose channels come last, oneDNN convolves it in one pass over memory;
        # conv1d would transpose it first, and in the other direction after.
        image = padded[:, None].permute(0, 3, 1, 2)
        convolved = functional.conv2d(image, weight[:, None, None], bias, groups=len(weight))
        return convolved.permute(0, 2, 3, 1)[:, 0]
    length = padded.shape[1] - weight.shape[1] + 1
    taps = weight.T.contiguous()
    convolved = padded[:, :length] * taps[0]
    for k in range(1, len(taps)):
        convolved.addcmul_(padded[:, k : k + length], taps[k])
    return convolved if bias is None else convolved.add_(bias)


torch_op = op_with_passes(definition, _forward, _backward)
"""The op with passes of PyTorch written for a CPU; the inputs are those of `definition`."""


LARGEST = 8
"""Largest width of the kernels: they are compiled for all taps."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """The properties of a call that decide which kernel can run it: also the taps of the convolution."""

    width: int = 1


BACKENDS: Backends[Request, Op] = passes_or_kernels(
    torch_op, "implicit.ops.short_convolution.triton_kernels", LARGEST, "width"
)


@uncompiled
def short_convolution(padded: Tensor, weight: Tensor, bias: Tensor, backend: str = AUTO) -> Tensor:
    """Compute silu(bias_c + Σ_k weight_ck padded_{t+k, c}).

    InputError for shapes that do not fit, tensors on several devices, an unknown backend or one that cannot
    run these tensors.

    Args:
        padded: width − 1 tokens before the sequence and then the sequence, ``[batch, width − 1 + length,
            channels]``.
        weight: ``[channels, width]``; the last tap is that of the token itself.
        bias: ``[channels]``.
        backend: who computes values and first derivatives: ``"torch"`` (passes of PyTorch), ``"triton"`` (a
            kernel each, float32 or bfloat16 with sums in float32) or ``"auto"``, the kernels on a GPU.

    Returns:
        ``[batch, length, channels]``; differentiable to any order.

    Source: Dao & Gu 2024, arXiv 2405.21060; ``causal_conv1d`` with ``activation="silu"``.

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
