"""The short causal convolution of Mamba-2 with its activation: every channel by itself, a few tokens wide."""

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.hand_written_passes import Arguments, op_with_passes


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
