"""Memory of the kernels: where everything of a chunk stands in it."""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from implicit.ops.numba_shared.tiles import memory, unit
from implicit.ops.ssd.numba_kernels.chunk import CHUNK_SIZE, Chunk
from implicit.ops.ssd.numba_kernels.chunk_gradient import Gradient


def room_for_chunk(length: int, size: int, width: int, dtype: np.dtype) -> tuple[Chunk, Gradient]:
    """Lay out the memory of a chunk and of its gradients, for states ``[size, width]``.

    Example:
        >>> work, back = room_for_chunk(1000, 64, 60, np.dtype("float32"))
        >>> work.tokens, work.size, work.width
        (32, 64, 64)
    """
    whole = unit(dtype)
    t, p, n = (-(-number // whole) * whole for number in (min(length, CHUNK_SIZE), size, width))
    of_chunk = (*4 * (t,), *3 * (t * p,), *4 * (t * n,), *2 * (t * t,), p * n)
    of_gradient = (*4 * (t * p,), *3 * (t * n,), *4 * (t,), *2 * (p * n,), *2 * (t * t,))
    *places, end = accumulate((*of_chunk, *of_gradient), initial=0)
    room = memory(end, dtype)
    chunk = Chunk(room, t, p, n, *places[: len(of_chunk)])
    return chunk, Gradient(*places[len(of_chunk) :])


def room_for_states(work: Chunk, heads: int, length: int = 1) -> NDArray[np.floating]:
    """Memory for the states of all heads before every chunk of a sequence.

    Example:
        >>> work, _ = room_for_chunk(1000, 64, 64, np.dtype("float32"))
        >>> room_for_states(work, heads=2, length=64).size // 64**2
        4
    """
    return memory(-(-length // work.tokens) * heads * work.size * work.width, work.memory.dtype)
