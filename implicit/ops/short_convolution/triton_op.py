"""The short convolution with both passes as Triton kernels."""

from torch import Tensor

from implicit.ops.hand_written_passes import Arguments, op_with_passes
from implicit.ops.short_convolution.passes import definition
from implicit.ops.short_convolution.triton_kernels import backward as plan_backward
from implicit.ops.short_convolution.triton_kernels import forward as plan_forward


def _forward(padded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
    launch, output = plan_forward(padded, weight, bias)
    launch.run()
    return (output,)


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    padded, weight, bias = inputs
    launch, padded_dot, sums = plan_backward(padded, weight, bias, gradients[0])
    launch.run()
    taps_and_bias = sums.sum((0, 1))
    return padded_dot, taps_and_bias[:-1].T.to(weight.dtype), taps_and_bias[-1].to(bias.dtype)


triton_op = op_with_passes(definition, _forward, _backward)
"""The op with kernels for passes; the inputs are those of `definition`."""
