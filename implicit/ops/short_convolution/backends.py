"""The backends of the short convolution.

Importing this module does not import Triton: that happens when the kernels are asked about or used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.hand_written_passes import Op, Tensors
from implicit.ops.needs import TRITON, at_most, element_types, entries, on_gpu_or_interpreted
from implicit.ops.short_convolution.passes import torch_op

LARGEST = 8
"""Largest width of the kernels: they are compiled for all taps."""


@dataclass(frozen=True)
class Request:
    """What decides whether a kernel can run the op.

    Attributes:
        device: type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``.
        dtypes: their element types.
        width: taps of the convolution.
        entries: of the first tensor, which is about as large as the output.

    Example:
        >>> request = Request("cpu", (torch.float32,), width=4)
        >>> BACKENDS["torch"].refusal(request) is None, BACKENDS.choose(request)
        (True, 'torch')
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    width: int
    entries: int = 1


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
