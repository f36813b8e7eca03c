"""Sizes, tiles and arguments of the launches of the scan's kernels."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from implicit.ops.triton_shared.launch import padded

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


@dataclass(frozen=True)
class Tiles:
    """Tiles of one head's matrices in a kernel: ``block_p`` of head_size by ``block_n`` of state_size."""

    block_p: int
    block_n: int
    warps: int
    stages: int

    def count_p(self, shape: Shape) -> int:
        """Tiles along head_size."""
        return -(-shape.head_size // self.block_p)

    def count_n(self, shape: Shape) -> int:
        """Tiles along state_size."""
        return -(-shape.state_size // self.block_n)

    def constants(self) -> dict[str, int]:
        """Return the tile sizes under the names that kernels give them."""
        return {"BLOCK_P": self.block_p, "BLOCK_N": self.block_n}


# Largest tile of each kernel, by the width of an element: the fastest on an H200 (docs/log.md)
# for 512 sequences of 32 tokens in float32, and 8 of 2,048 in bfloat16.
TILES: dict[tuple[str, int], Tiles] = {
    ("carry", 2): Tiles(block_p=64, block_n=64, warps=4, stages=3),
    ("carry", 4): Tiles(block_p=32, block_n=128, warps=4, stages=1),
    ("output", 2): Tiles(block_p=64, block_n=128, warps=4, stages=2),
    ("output", 4): Tiles(block_p=64, block_n=32, warps=4, stages=2),
    ("input_gradient", 2): Tiles(block_p=64, block_n=64, warps=4, stages=1),
    ("input_gradient", 4): Tiles(block_p=64, block_n=32, warps=4, stages=1),
    ("projection_gradient", 2): Tiles(block_p=64, block_n=128, warps=8, stages=1),
    ("projection_gradient", 4): Tiles(block_p=32, block_n=64, warps=4, stages=1),
}


def tiles(kernel: str, shape: Shape, dtype: torch.dtype) -> Tiles:
    """Return the tile sizes of a kernel: the largest of its table, or less where the matrices are smaller."""
    largest = TILES[kernel, dtype.itemsize]
    return Tiles(
        min(largest.block_p, padded(shape.head_size)),
        min(largest.block_n, padded(shape.state_size)),
        largest.warps,
        largest.stages,
    )
