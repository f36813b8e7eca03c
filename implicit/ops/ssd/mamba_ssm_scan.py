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
    """Compute what `ssd_reference` computes by the scan of mamba_ssm; CUDA only, the state float32.

    Float32 products may be TF32, and log decays are summed in float32 over a chunk, so that tokens that reset
    the state take digits from those that follow. ``chunk_size`` is a power of two.
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
