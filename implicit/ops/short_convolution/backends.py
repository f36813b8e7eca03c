"""The backends of the short convolution.

Importing this module does not import Triton: that happens when the kernels are asked about or used.
"""

from dataclasses import dataclass

from torch import Tensor

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.hand_written_passes import Op, Tensors
from implicit.ops.needs import TRITON, at_most, element_types, entries, on_gpu_or_interpreted
from implicit.ops.request import TensorsRequest
from implicit.ops.short_convolution.passes import torch_op

LARGEST = 8
"""Largest width of the kernels: they are compiled for all taps."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """What decides whether a kernel can run the op.

    Attributes:
        width: taps of the convolution.

    Example:
        >>> import torch
        >>> BACKENDS.choose(Request.of({"x": torch.ones(4)}, width=4))
        'torch'
    """

    width: int = 1


def _triton_op(padded: Tensor, weight: Tensor, bias: Tensor) -> Tensors:
    from implicit.ops.short_convolution.triton_op import triton_op

    return triton_op(padded, weight, bias)


BACKENDS: Backends[Request, Op] = Backends(
    {
        "torch": Backend(torch_op),
        "triton": Backend(
            _triton_op,
            (TRITON, element_types(), at_most(LARGEST, "width"), entries, on_gpu_or_interpreted()),
        ),
    },
    on_gpu=Preference("triton", "where every pass over memory counts"),
    elsewhere=Preference("torch", "for which its passes are written"),
)
