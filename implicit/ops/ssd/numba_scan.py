"""The SSD scan by numba: kernels for values and first derivatives, the chunked composition for all else."""

from torch import Tensor

from implicit.ops.hand_written_passes import op_with_passes
from implicit.ops.ssd import numba_kernels
from implicit.ops.ssd.chunked import CHUNK_SIZE, composition


def ssd_numba(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes, token after token, with the state in registers.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``, float32 or float64 on a CPU.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.

    Returns:
        The outputs, shaped like ``x``, and the state after the last token.

    Example:
        >>> import torch
        >>> x = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
        >>> ones = torch.ones(1, 3, 1, 1)
        >>> y, state = ssd_numba(x, torch.ones(1, 3, 1), torch.zeros(1), ones, ones)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 3.0, 6.0], 6.0)
    """
    dt, A = dt.to(x.dtype), A.to(x.dtype)
    y, state = _SCAN(x, dt, A, B, C, None if initial_state is None else initial_state.to(x.dtype))
    return y, state


_SCAN = op_with_passes(
    composition(CHUNK_SIZE),
    forward=numba_kernels.forward,
    backward=lambda inputs, gradients: numba_kernels.backward(*inputs, *gradients),
)
