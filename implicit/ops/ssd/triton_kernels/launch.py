"""Sizes, tiles and arguments of the launches of the scan's kernels."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from implicit.ops.triton_shared.launch import Tiles, padded

LARGEST_CHUNK = {2: 64, 4: 32}
"""Tokens per chunk, by the width of an element, and fewer in shorter sequences.

`device.log_decay_sums` is exact up to 64. Products of float32 take the registers of three, so that 64 tokens
would spill them.
"""


@dataclass(frozen=True)
class Shape:
    """The sizes of one scan."""

    batch: int
    length: int
    heads: int
    groups: int
    head_size: int
    state_size: int
    chunk: int

    @classmethod
    def of(cls, x: Tensor, B: Tensor) -> Self:
        """Read the sizes off x, ``[batch, length, heads, head_size]``, and B, ``[..., state_size]``."""
        batch, length, heads, head_size = x.shape
        chunk = min(LARGEST_CHUNK[x.element_size()], padded(length))
        return cls(batch, length, heads, B.shape[2], head_size, B.shape[3], chunk)

    @property
    def chunks(self) -> int:
        """Chunks per sequence, the last of them perhaps shorter."""
        return -(-self.length // self.chunk)

    def arguments(self) -> dict[str, int]:
        """Return the sizes that kernels take at run time."""
        return {
            "length": self.length,
            "chunks": self.chunks,
            "heads": self.heads,
            "heads_per_group": self.heads // self.groups,
        }

    def constants(self) -> dict[str, int]:
        """Return the sizes that kernels are compiled for."""
        return {"HEAD_SIZE": self.head_size, "STATE_SIZE": self.state_size, "CHUNK": self.chunk}


TILES: dict[tuple[str, int], Tiles] = {
    ("carry", 2): Tiles(rows=64, columns=64, warps=4, stages=3),
    ("carry", 4): Tiles(rows=32, columns=128, warps=4, stages=1),
    ("output", 2): Tiles(rows=64, columns=128, warps=4, stages=2),
    ("output", 4): Tiles(rows=64, columns=32, warps=4, stages=2),
    ("input_gradient", 2): Tiles(rows=64, columns=64, warps=4, stages=1),
    ("input_gradient", 4): Tiles(rows=64, columns=32, warps=4, stages=1),
    ("projection_gradient", 2): Tiles(rows=64, columns=128, warps=8, stages=1),
    ("projection_gradient", 4): Tiles(rows=32, columns=64, warps=4, stages=1),
}
"""By kernel and width of an element, of one head's matrices: rows of head_size by columns of state_size. The
fastest on an H200 (docs/log.md) for 512 sequences of 32 tokens in float32, and 8 of 2,048 in bfloat16."""


def tiles(kernel: str, shape: Shape, dtype: torch.dtype) -> Tiles:
    """Return the tile sizes of a kernel: the largest of its table, or less where the matrices are smaller."""
    largest = TILES[kernel, dtype.itemsize]
    rows, columns = min(largest.rows, padded(shape.head_size)), min(largest.columns, padded(shape.state_size))
    return replace(largest, rows=rows, columns=columns)
