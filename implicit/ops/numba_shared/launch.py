"""What every launcher of numba kernels does: tensors as arrays, and sequences dealt to threads."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, contiguous; its own memory if they are.

    Example:
        >>> array(torch.ones(2, requires_grad=True)).tolist()
        [1.0, 1.0]
    """
    return np.ascontiguousarray(tensor.detach().contiguous().numpy())


def deal(run: Callable[[int, int], None], batch: int) -> None:
    """Deal sequences, first to last − 1, to as many threads as PyTorch uses.

    Example:
        >>> seen = []
        >>> deal(lambda first, last: seen.extend(range(first, last)), 5)
        >>> sorted(seen)
        [0, 1, 2, 3, 4]
    """
    threads = min(torch.get_num_threads(), batch)
    if threads == 1:
        run(0, batch)
        return
    bounds = [batch * number // threads for number in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run, *pair) for pair in itertools.pairwise(bounds)]:
            done.result()
