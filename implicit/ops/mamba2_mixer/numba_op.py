"""The mixer with both passes as numba kernels."""

import functools

from implicit.ops.hand_written_passes import Op, op_with_passes
from implicit.ops.mamba2_mixer import numba_kernels
from implicit.ops.mamba2_mixer.definition import definition


@functools.cache
def numba_op(norm_groups: int, epsilon: float) -> Op:
    """Return the mixer with kernels for passes; arguments as of `definition`.

    Example:
        >>> import torch
        >>> tensors = torch.zeros(1, 1, 5), torch.zeros(1, 3, 0), torch.ones(3, 1), torch.zeros(3)
        >>> ones = torch.ones(1)
        >>> output, state = numba_op(1, 1.0)(*tensors, *4 * (ones,), torch.ones(1, 1, 1, 1), None)
        >>> output.item(), state.shape
        (0.0, torch.Size([1, 1, 1, 1]))
    """
    return op_with_passes(
        definition(norm_groups, epsilon),
        forward=functools.partial(numba_kernels.forward, norm_groups, epsilon),
        backward=functools.partial(numba_kernels.backward, norm_groups, epsilon),
    )
