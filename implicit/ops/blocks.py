"""Split what is handled row by row into blocks that stay in the cache of a processor."""

from torch import Tensor

BLOCK = 2**17
"""Numbers a block: half a megabyte in float32, so that a few tensors fit into the cache of a core."""


def blocks(tensor: Tensor) -> list[slice]:
    """Slices of the first axis, each of about `BLOCK` numbers; a single one on other devices than the CPU.

    Temporaries of this size are also those that memory allocators give out again. The pages of larger ones
    go back to the system, and take longer to get than to fill.

    Example:
        >>> import torch
        >>> blocks(torch.zeros(5, 2, BLOCK // 4))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    rows = len(tensor)
    size = max(1, BLOCK * rows // tensor.numel()) if tensor.device.type == "cpu" else rows
    return [slice(start, start + size) for start in range(0, rows, size)]
