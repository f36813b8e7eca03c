"""The public function over the kernels, and its gradient."""

import torch
from torch import Tensor

from implicit.ops.hand_written_passes import Arguments, op_with_passes
from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.triton_kernels.backward import input_gradients, projection_gradients
from implicit.ops.ssd.triton_kernels.forward import carry, outputs


def _forward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor
) -> tuple[Tensor, Tensor]:
    walk, entering, final_state = carry(x, B, dt, A, initial_state, reverse=False)
    walk.run()
    launch, y = outputs(x, dt, A, B, C, entering)
    launch.run()
    return y, final_state


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    """The backward pass carries the state again, which costs less than storing it."""
    x, dt, A, B, C, initial_state = inputs
    dy, final_gradient = gradients
    dy = torch.zeros_like(x) if dy is None else dy
    final_gradient = (
        initial_state.new_zeros(initial_state.shape) if final_gradient is None else final_gradient
    )
    walk, entering, _ = carry(x, B, dt, A, initial_state, reverse=False)
    walk.run()
    walk, leaving, initial_gradient = carry(dy, C, dt, A, final_gradient, reverse=True)
    walk.run()
    launch, dx, ddt, dA = input_gradients(x, dt, A, B, C, dy, entering, leaving)
    launch.run()
    launch, dB, dC = projection_gradients(x, dt, A, B, C, dy, entering, leaving)
    launch.run()
    of_rates, of_B, of_C = dA.sum((0, 1)).to(A.dtype), dB.sum(0).to(B.dtype), dC.sum(0).to(C.dtype)
    return dx, ddt.to(dt.dtype), of_rates, of_B, of_C, initial_gradient.to(initial_state.dtype)


_scan = op_with_passes(ssd_chunked, _forward, _backward)


def ssd_triton(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes in Triton kernels, second derivatives by the chunked form.

    Arguments are those of `ssd`, which has checked them; slices of a wider projection are read in place.
    Outputs have the dtype of x, the state is float32. In bfloat16 the operands of matrix products are rounded
    to bfloat16, decays and sums stay in float32; in float32 operands keep 21 bits or more, never TF32's 10.
    """
    if initial_state is None:
        batch, _, heads, head_size = x.shape
        initial_state = x.new_zeros(batch, heads, head_size, B.shape[3], dtype=torch.float32)
    y, final_state = _scan(x, dt, A, B, C, initial_state)
    return y, final_state
