"""The SSD scan by simple gated linear attention of flash-linear-attention, with our backends' signature.

Simple GLA is S_t = exp(g_t) S_{t-1} + k_t v_tᵀ, o_t = q_tᵀ S_t with one g per head: the SSD scan with q = C,
k = B, v = Δ x, g = Δ A and the transposed state. It takes q and k for every head, so B and C are repeated
over the heads of a group; that is part of what it costs here.
"""

from torch import Tensor

from implicit.ops.backends import Backend, on_cuda, package
from implicit.ops.ssd import Request, Scan


def ssd_simple_gla(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes with ``fla.ops.simple_gla.chunk_simple_gla``; CUDA only.

    Source:
        https://github.com/fla-org/flash-linear-attention, fla/ops/simple_gla/chunk.py.
    """
    from fla.ops.simple_gla import chunk_simple_gla

    heads_per_group = x.shape[2] // B.shape[2]
    k, q = (projection.repeat_interleave(heads_per_group, dim=2) for projection in (B, C))
    y, state = chunk_simple_gla(
        q,
        k,
        x * dt[..., None].to(x.dtype),
        dt.float() * A.float(),
        scale=1.0,
        initial_state=None if initial_state is None else initial_state.float().mT.contiguous(),
        output_final_state=True,
    )
    return y, state.mT.float()


FLA: Backend[Request, Scan] = Backend(
    ssd_simple_gla,
    (on_cuda(), package("fla", "pip install flash-linear-attention", module="fla.ops.simple_gla")),
)
