"""Split what is handled row by row into blocks that stay in the cache."""

BLOCK = 2**17
"""Numbers a block: half a megabyte in float32, so that a handful of tensors fits into the cache of a core."""


def blocks(rows: int, features: int) -> list[slice]:
    """Slices of the rows, each of about `BLOCK` numbers.

    Temporaries of this size are also those that memory allocators give out again, while the pages of larger
    ones are returned to the system and cost more to get back than to fill.

    Example:
        >>> blocks(rows=5, features=BLOCK // 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    size = max(1, BLOCK // features)
    return [slice(start, start + size) for start in range(0, rows, size)]
