"""What decides who can run an SSD scan, and what our kernels need of it."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from implicit.ops.backends import (
    TRITON,
    Need,
    at_most,
    element_types,
    on_gpu_or_interpreted,
    one_element_type,
)

LARGEST = 256
"""Largest head_size and state_size of the kernels. They need not be powers of two: tiles are padded."""

TYPED = "x, B and C"
"""The tensors whose element types are asked about: the others may be wider."""


@dataclass(frozen=True)
class Request:
    """What decides whether a backend can run a scan.

    Attributes:
        device: type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``.
        dtypes: element types of x, B and C.
        head_size: rows of the state of a head.
        state_size: columns of the state of a head.

    Example:
        >>> Request.of(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
        Request(device='cpu', dtypes=(torch.float32, torch.float32, torch.float32), head_size=8, state_size=4)
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    head_size: int
    state_size: int

    @classmethod
    def of(cls, x: Tensor, B: Tensor, C: Tensor) -> Self:
        """Read a request off the tensors of a call."""
        return cls(x.device.type, (x.dtype, B.dtype, C.dtype), x.shape[-1], B.shape[-1])


TRITON_NEEDS: tuple[Need, ...] = (
    TRITON,
    one_element_type(TYPED),
    element_types(subject=TYPED),
    at_most(LARGEST, "head_size", "state_size"),
    on_gpu_or_interpreted(),
)
