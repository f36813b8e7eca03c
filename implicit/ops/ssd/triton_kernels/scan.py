"""The public function over the kernels, and its gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from automata.errors import InputError
from implicit.ops.ssd.triton_kernels.backward import input_gradients, projection_gradients
from implicit.ops.ssd.triton_kernels.forward import carry, outputs
from implicit.ops.ssd.triton_kernels.launch import INTERPRETED, SIZES

DTYPES = (torch.float32, torch.bfloat16)
"""Element types of x, B and C; sums are in float32 with either."""


class _Scan(torch.autograd.Function):
    """Keeps only its inputs: the backward pass carries the state again, which costs less than storing it."""

    @staticmethod
    def forward(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor
    ) -> tuple[Tensor, Tensor]:
        walk, entering, final_state = carry(x, B, dt, A, initial_state, reverse=False)
        walk.run()
        launch, y = outputs(x, dt, A, B, C, entering)
        launch.run()
        return y, final_state

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, final_gradient: Tensor) -> tuple[Tensor, ...]:
        x, dt, A, B, C, initial_state = ctx.saved_tensors
        walk, entering, _ = carry(x, B, dt, A, initial_state, reverse=False)
        walk.run()
        walk, leaving, initial_gradient = carry(dy, C, dt, A, final_gradient, reverse=True)
        walk.run()
        launch, dx, ddt, dA = input_gradients(x, dt, A, B, C, dy, entering, leaving)
        launch.run()
        launch, dB, dC = projection_gradients(x, dt, A, B, C, dy, entering, leaving)
        launch.run()
        return (
            dx,
            ddt.to(dt.dtype),
            dA.sum((0, 1)).to(A.dtype),
            dB.sum(0).to(B.dtype),
            dC.sum(0).to(C.dtype),
            initial_gradient.to(initial_state.dtype),
        )


def ssd_triton(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes in Triton kernels, with its first derivatives.

    Tensors need not be contiguous: slices of a wider projection are read in place, others are copied. In
    bfloat16 the operands of matrix products are rounded to bfloat16, decays and sums stay in float32. In
    float32 products are IEEE, never TF32. Decays that reset the state within a chunk cost nothing of the
    precision of what follows.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``, float32 or bfloat16; head_size up to 256.
        dt: positive step sizes, ``[batch, length, heads]``, any floating dtype.
        A: negative decay rates, ``[heads]``, any floating dtype.
        B: input projections, ``[batch, length, groups, state_size]``, as ``x``; state_size up to 256.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.

    Returns:
        The outputs, shaped like ``x`` and of its dtype, and the state after the last token, float32.

    Raises:
        InputError: for a dtype or a size that the kernels do not take, for tensors of several dtypes, and for
            tensors on a CPU outside Triton's interpreter.

    Source:
        Dao & Gu 2024, arXiv 2405.21060, section 6; gradients derived in `triton_kernels.backward`.

    Example:
        On a machine without a GPU this needs ``TRITON_INTERPRET=1`` before Triton is imported.

        >>> device = "cuda" if torch.cuda.is_available() else "cpu"
        >>> x = torch.tensor([1.0, 2.0, 3.0], device=device).view(1, 3, 1, 1)
        >>> ones = torch.ones(1, 3, 1, 1, device=device)
        >>> y, state = ssd_triton(x, ones[..., 0], torch.zeros(1, device=device), ones, ones)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 3.0, 6.0], 6.0)
    """
    check_request(x, dt, A, B, C, initial_state)
    if initial_state is None:
        batch, _, heads, head_size = x.shape
        initial_state = x.new_zeros(batch, heads, head_size, B.shape[3], dtype=torch.float32)
    y, final_state = _Scan.apply(x, dt, A, B, C, initial_state)
    return y, final_state


def check_request(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> None:
    """Raise InputError where the kernels cannot take these tensors; shapes are assumed to fit each other.

    Example:
        >>> x, dt, B = torch.ones(1, 1, 1, 300), torch.ones(1, 1, 1), torch.ones(1, 1, 1, 16)
        >>> check_request(x, dt, -torch.ones(1), B, B)
        Traceback (most recent call last):
        automata.errors.InputError: head_size is 300; the triton backend takes 1 to 256, use backend='chunked'
    """
    for name, tensor in (("x", x), ("B", B), ("C", C)):
        if tensor.dtype not in DTYPES:
            raise InputError(
                f"{name} is {tensor.dtype}; the triton backend takes torch.float32 and torch.bfloat16, "
                "cast it or use backend='chunked'"
            )
        if tensor.dtype != x.dtype:
            raise InputError(f"{name} is {tensor.dtype} and x is {x.dtype}; cast both to the same dtype")
    for name, tensor in (("dt", dt), ("A", A), ("initial_state", initial_state)):
        if tensor is not None and not tensor.is_floating_point():
            raise InputError(f"{name} is {tensor.dtype}; give it in a floating dtype")
    for name, size in (("head_size", x.shape[3]), ("state_size", B.shape[3])):
        if size not in SIZES:
            raise InputError(
                f"{name} is {size}; the triton backend takes {SIZES.start} to {SIZES.stop - 1}, "
                "use backend='chunked'"
            )
    if x.device.type != "cuda" and not INTERPRETED:
        raise InputError(
            f"x is on {x.device}; move the tensors to a GPU, or set TRITON_INTERPRET=1 before Triton is imported"
        )
