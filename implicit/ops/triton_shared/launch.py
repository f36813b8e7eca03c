"""Launches of Triton kernels as values: to be run on tensors, or compiled for a machine that is not here."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

INTERPRETED: bool = triton.knobs.runtime.interpret
"""True if kernels run in Triton's interpreter: TRITON_INTERPRET=1 when Triton was imported."""

# The interpreter makes arrays of one element of integers. Triton 3.6 hands them to NumPy as the bounds of
# loops, which NumPy 2.4 refuses, so there integers go in as constants, which are left alone. Triton 3.7
# squeezes the arrays, and its interpreter no longer mixes constants and tensors in one expression.
_INTEGERS_AS_CONSTANTS = INTERPRETED and [int(part) for part in triton.__version__.split(".")[:2]] < [3, 7]


def padded(size: int) -> int:
    """Return the least power of two that is at least ``size`` and 16, the least size of a matrix product."""
    return max(16, 1 << (size - 1).bit_length())


@dataclass(frozen=True)
class Tiles:
    """The tiles that a kernel cuts matrices into, and how it occupies a multiprocessor."""

    rows: int
    columns: int
    warps: int
    stages: int = 1
    """Stages of the software pipeline; passes over memory and products with vectors need none."""

    def constants(self, rows: str, columns: str) -> dict[str, int]:
        """Return the tile sizes under the names that a kernel gives the two axes."""
        return {f"BLOCK_{rows}": self.rows, f"BLOCK_{columns}": self.columns}


@dataclass(frozen=True)
class Launch:
    """One kernel launch, ready to run or to be compiled for a machine that is not here.

    Programs run along one axis: the other two are limited to 65,535. Arguments are taken at run time,
    constants compiled for.
    """

    kernel: Any
    programs: int
    arguments: Mapping[str, Tensor | int | float]
    constants: Mapping[str, int]
    tiles: Tiles

    def run(self) -> None:
        """Run the kernel on the device of its tensors, in the current stream."""
        device = next(value.device for value in self.arguments.values() if isinstance(value, Tensor))
        arguments: dict[str, Any] = {**self.arguments, **self.constants}
        if _INTEGERS_AS_CONSTANTS:
            arguments = {k: tl.constexpr(v) if isinstance(v, int) else v for k, v in arguments.items()}
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            self.kernel[(self.programs,)](
                **arguments, num_warps=self.tiles.warps, num_stages=self.tiles.stages
            )


def matrix(tensor: Tensor, features: int) -> Tensor:
    """Return a tensor as ``[tokens, features]`` with packed rows; a copy only where its strides ask for one.

    Example:
        A slice of a wider projection is read in place.

        >>> import torch
        >>> wide = torch.zeros(2, 5, 12)
        >>> x = matrix(wide[..., :8].unflatten(-1, (4, 2)), 8)
        >>> x.shape, x.stride(), x.data_ptr() == wide.data_ptr()
        (torch.Size([10, 8]), (12, 1), True)
        >>> matrix(torch.ones(()).expand(2, 5, 8), 8).stride()
        (8, 1)
    """
    rows = tensor.reshape(-1, features)
    return rows if features == 1 or rows.stride(1) == 1 else rows.contiguous()


def strided_rows(**matrices: Tensor) -> dict[str, Tensor | int]:
    """Return kernel arguments: each matrix, with the distance of its rows."""
    arguments: dict[str, Tensor | int] = {}
    for name, tensor in matrices.items():
        arguments |= {name: tensor, f"{name}_token": tensor.stride(0)}
    return arguments


def rows(tensor: Tensor) -> Tensor:
    """Return a tensor ``[batch, length, ...]`` whose tokens are packed rows; a copy only where they are not.

    The batch and the length may have any stride: a slice of a wider projection is taken as it is.
    """
    packed = tensor[0, 0].is_contiguous()
    return tensor if packed else tensor.contiguous()


def strided(**tensors: Tensor) -> dict[str, Tensor | int]:
    """Return kernel arguments: each tensor, with its strides over batch and tokens."""
    arguments: dict[str, Tensor | int] = {}
    for name, tensor in tensors.items():
        arguments |= {name: tensor, f"{name}_batch": tensor.stride(0), f"{name}_token": tensor.stride(1)}
    return arguments
