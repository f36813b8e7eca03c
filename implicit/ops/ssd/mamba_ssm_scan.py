"""The chunked scan of the package mamba_ssm, behind the signature of ours."""

import torch
from torch import Tensor


def ssd_mamba_ssm(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    chunk_size: int = 256,
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes with ``mamba_chunk_scan_combined``; CUDA only.

    Δ is final here (bias and softplus belong to the cell), and the skip D x is added outside. It differs from
    `ssd_triton` in two ways: float32 products may be TF32, and log decays are summed in float32 over a chunk,
    so that tokens that reset the state take digits from those that follow.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.
        chunk_size: tokens per chunk, a power of two.

    Returns:
        The outputs, shaped like ``x``, and the state after the last token, float32.

    Source:
        Dao & Gu 2024, arXiv 2405.21060; https://github.com/state-spaces/mamba.

    Example:
        >>> from implicit.ops.ssd import explain
        >>> explain("cpu").refusals["mamba_ssm"]
        'the tensors are on cpu; move them to a CUDA device'
    """
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    y, state = mamba_chunk_scan_combined(
        x,
        dt.float(),
        A.float(),
        B,
        C,
        chunk_size,
        initial_states=None if initial_state is None else initial_state.float(),
        return_final_states=True,
    )
    return y, state.to(torch.float32)
