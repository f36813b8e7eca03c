"""The SSD scan as matrix products over chunks of the sequence: the CPU path.

Within a chunk the scan is a masked, decayed attention; between chunks only the states are passed on
(Dao & Gu 2024, arXiv 2405.21060, section 6).
"""

import functools

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.hand_written_passes import Op, op_with_passes
from implicit.ops.ssd import chunked_passes
from implicit.ops.ssd.chunked_passes import LOG2_E

CHUNK_SIZE = 64
"""Tokens per chunk unless told otherwise: the fastest, or within 10% of it, of 16 to 128 on a CPU."""


def ssd_chunked(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    chunk_size: int = CHUNK_SIZE,
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes, with its arguments, a chunk of tokens at a time.

    Half-precision inputs are accumulated in float32, and the state stays so; the outputs come back in the
    dtype of ``x``. The scan is differentiable to any order and in forward mode. The last chunk may be
    shorter. InputError for a chunk size below 1.
    """
    if chunk_size < 1:
        raise InputError(f"chunk_size is {chunk_size}; give at least 1")
    dtype = x.dtype
    if dtype in (torch.bfloat16, torch.float16):
        x, dt, A, B, C = (tensor.float() for tensor in (x, dt, A, B, C))
    if initial_state is not None:
        initial_state = initial_state.to(x.dtype)
    y, state = _scan(min(chunk_size, x.shape[1]))(x, dt, A, B, C, initial_state)
    return y.to(dtype), state


def composition(chunk_size: int) -> Op:
    """The scan with chunks of a size as a plain composition of differentiable ops."""

    def definition(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        batch, length, heads, head_size = x.shape
        groups, state_size = B.shape[2:]
        # Heads are split into (groups, heads per group) so that B and C are never copied per head.
        x = (dt[..., None] * x).unflatten(2, (groups, -1))
        # Float64 and base 2 for the reasons given in chunked_passes.Decays.
        decay = (dt.double() * (A.double() * LOG2_E)).unflatten(2, (groups, -1))
        if initial_state is None:
            initial_state = x.new_zeros(batch, heads, head_size, state_size)
        state = initial_state.unflatten(1, (groups, -1))
        outputs = []
        for start in range(0, length, chunk_size):
            chunk = slice(start, start + chunk_size)
            y, state = _chunk(x[:, chunk], decay[:, chunk], B[:, chunk], C[:, chunk], state)
            outputs.append(y)
        return torch.cat(outputs, dim=1).flatten(2, 3), state.flatten(1, 2)

    return definition


@functools.cache
def _scan(chunk_size: int) -> Op:
    """The scan with chunks of a size as an op with hand-written passes."""
    return op_with_passes(
        composition(chunk_size),
        forward=functools.partial(chunked_passes.forward, chunk_size),
        backward=lambda inputs, gradients: chunked_passes.backward(chunk_size, *inputs, *gradients),
    )


def _chunk(x: Tensor, decay: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One chunk of tokens l: outputs and the state after it. x is already multiplied by Δ.

    Shapes: x [b, l, g, r, p], decay [b, l, g, r] (log2), B and C [b, l, g, n], state [b, g, r, p, n].
    """
    total = torch.cumsum(decay, dim=1).permute(0, 2, 3, 1)  # log2 of the decay since the start, [b, g, r, l]
    # Decay from token j to token i ≥ j. Above the diagonal the exponent is positive and could overflow.
    between = (total[..., :, None] - total[..., None, :]).to(x.dtype).clamp(max=0).exp2()
    scores = torch.einsum("bign,bjgn->bgij", C, B).tril()[:, :, None] * between  # [b, g, r, i, j]
    heads_first = x.permute(0, 2, 3, 1, 4)  # [b, g, r, l, p]
    carried = torch.einsum("blgn,bgrpn->bgrlp", C, state) * torch.exp2(total).to(x.dtype)[..., None]
    y = (scores @ heads_first + carried).permute(0, 3, 1, 2, 4)

    to_end = torch.exp2(total[..., -1:] - total).to(x.dtype)[..., None] * heads_first  # [b, g, r, l, p]
    gained = torch.einsum("bgrlp,blgn->bgrpn", to_end, B)
    return y, torch.exp2(total[..., -1]).to(x.dtype)[..., None, None] * state + gained
