"""The gated norm with both passes as Triton kernels."""

import functools

from torch import Tensor

from implicit.ops.gated_norm.passes import definition
from implicit.ops.gated_norm.triton_kernels import backward as plan_backward
from implicit.ops.gated_norm.triton_kernels import forward as plan_forward
from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes


@functools.cache
def triton_op(groups: int, epsilon: float) -> Op:
    """Return the gated norm with kernels for passes; arguments as of `definition`.

    Example:
        On a machine without a GPU this needs ``TRITON_INTERPRET=1`` before Triton is imported.

        >>> import torch
        >>> device = "cuda" if torch.cuda.is_available() else "cpu"
        >>> x, ones = torch.tensor([[3.0], [4.0]], device=device), torch.ones(2, device=device)
        >>> (output,) = triton_op(1, 1e-9)(torch.zeros_like(x), x, ones, 100 * ones, ones)
        >>> torch.allclose(output.cpu(), torch.tensor([3.0, 4.0]) / 12.5**0.5)
        True
    """

    def forward(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        launch, output = plan_forward(y, x, D, gate, weight, groups, epsilon)
        launch.run()
        return (output,)

    def backward(inputs: Arguments, gradients: Arguments) -> Arguments:
        D, weight = inputs[2], inputs[4]
        launch, y_dot, x_dot, gate_dot, D_sums, weight_sums = plan_backward(
            inputs, gradients[0], groups, epsilon
        )
        launch.run()
        D_dot = D_sums.unflatten(-1, (len(D), -1)).sum((0, 2)).to(D.dtype)
        return y_dot, x_dot, D_dot, gate_dot, weight_sums.sum(0).to(weight.dtype)

    return op_with_passes(definition(groups, epsilon), forward, backward)
