"""Tools of every launcher of numba kernels: tensors as arrays, and sequences dealt to threads."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, contiguous; ``tensor.numpy()`` would leave a storage of fixed size."""
    return np.ascontiguousarray(np.from_dlpack(tensor.detach().contiguous()))


class Strided(NamedTuple):
    """Numbers of tokens in one flat array, with the entries from one sequence and one token to the next."""

    flat: NDArray[Any]
    sequence: int
    token: int

    @classmethod
    def of(cls, tensor: Tensor) -> "Strided":
        """Read ``[batch, length, …]``, without a copy where the numbers of a token lie side by side."""
        tensor = tensor.detach()
        if not tensor[:1, :1].is_contiguous():
            tensor = tensor.contiguous()
        sequence, token = tensor.stride()[:2]
        last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        return cls(tensor.as_strided((last + 1,), (1,)).numpy(), sequence, token)


def deal(run: Callable[[int, int], None], batch: int) -> None:
    """Deal sequences, first to last − 1, to as many threads as PyTorch uses."""
    threads = min(torch.get_num_threads(), batch)
    if threads == 1:
        run(0, batch)
        return
    bounds = [batch * number // threads for number in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run, *pair) for pair in itertools.pairwise(bounds)]:
            done.result()
