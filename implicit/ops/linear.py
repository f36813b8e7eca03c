"""The linear map x Wᵀ, through oneDNN where that is the faster library.

PyTorch multiplies float32 matrices on a CPU with MKL. On processors of other makers than Intel, oneDNN is
faster; on Intel's, MKL is.
"""

import functools
import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.hand_written_passes import is_transformed

SMALLEST_PRODUCT = 2**23
"""Multiplications below which calling oneDNN costs more than it gains."""


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x Wᵀ of ``[..., in_features]`` and W, ``[out_features, in_features]``.

    It is `torch.nn.functional.linear`, to float32 rounding; differentiable to any order.
    """
    if torch.compiler.is_compiling() or not _is_for_onednn(x, weight) or is_transformed((x, weight)):
        return functional.linear(x, weight)
    rows = x.reshape(-1, x.shape[-1])
    demand = _WeightGradient.apply(weight, rows.detach(), [rows])
    return _Product.apply(rows, weight, demand).view(*x.shape[:-1], -1)


@functools.cache
def _mkl_knows_this_processor() -> bool:
    """Return whether PyTorch carries MKL and the processor is of its maker."""
    try:
        processor = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        processor = platform.processor()
    return torch.backends.mkl.is_available() and "GenuineIntel" in processor


def _is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.numel() * len(weight) >= SMALLEST_PRODUCT
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and not _mkl_knows_this_processor()
        and not torch.is_autocast_enabled("cpu")
    )


def _multiply(left: Tensor, right: Tensor) -> Tensor:
    """The product left rightᵀ of two matrices, both ``[..., in_features]``."""
    if torch.is_grad_enabled() or is_transformed((left, right)):
        return linear(left, right)
    if not _is_for_onednn(left, right):
        return functional.linear(left, right)
    # oneDNN takes seconds where the right factor is a slice or an expanded tensor.
    if not (right.is_contiguous() or right.mT.is_contiguous()):
        right = right.contiguous()
    return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")


# L = L(Y) with Y = X Wᵀ and G = ∂L/∂Y:   ∂L/∂X = G W,   ∂L/∂W = Gᵀ X.
#
# Each is computed by its own autograd function, because autograd runs one only if what it leads to was asked
# for, and the implicit gradient asks many times for ∂L/∂X alone. `_Product` hands G to `_WeightGradient` as
# the gradient of its third input, a zero that takes no memory.


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, demand: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(weight)
        return _multiply(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        of_x = _multiply(gradient, weight.T) if ctx.needs_input_grad[0] else None
        return of_x, None, gradient


class _WeightGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, detached: Tensor, x: list[Tensor]) -> Tensor:
        # Given as an input, x would make this function a way to ∂L/∂X. In a list autograd does not see it;
        # only second derivatives need how it came about.
        ctx.save_for_backward(detached)
        ctx.x = x
        return weight.new_zeros(()).expand(len(detached), len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.x if torch.is_grad_enabled() else ctx.saved_tensors
        # oneDNN is faster with the longer side last.
        if x.shape[1] < gradient.shape[1]:
            return _multiply(x.T, gradient.T).T, None, None
        return _multiply(gradient.T, x.T), None, None
