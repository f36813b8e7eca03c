"""The SSD scan as matrix products over chunks of the sequence: the CPU path.

Within a chunk the scan is a masked, decayed attention; between chunks only the states are passed on
(Dao & Gu 2024, arXiv 2405.21060, section 6).
"""

import torch
from torch import Tensor

from automata.errors import InputError


def ssd_chunked(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes, a chunk of tokens at a time.

    Half-precision inputs are accumulated in float32; the outputs come back in the dtype of ``x``.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.
        chunk_size: tokens a chunk; any length of sequence works, the last chunk is shorter.

    Returns:
        The outputs, shaped like ``x``, and the state after the last token (float32 for half precision).

    Raises:
        InputError: for a chunk size below 1.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
        >>> ones = torch.ones(1, 3, 1, 1)
        >>> y, state = ssd_chunked(x, torch.ones(1, 3, 1), torch.zeros(1), ones, ones, chunk_size=2)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 3.0, 6.0], 6.0)
    """
    if chunk_size < 1:
        raise InputError(f"chunk_size is {chunk_size}; give at least 1")
    dtype = x.dtype
    if dtype in (torch.bfloat16, torch.float16):
        x, dt, A, B, C = (tensor.float() for tensor in (x, dt, A, B, C))
        initial_state = None if initial_state is None else initial_state.float()
    batch, length, heads, head_size = x.shape
    groups, state_size = B.shape[2:]
    state = (
        x.new_zeros(batch, heads, head_size, state_size)
        if initial_state is None
        else initial_state.to(x.dtype)
    )
    # Heads are split into (groups, heads per group) so that B and C are never copied per head.
    x = (dt[..., None] * x).view(batch, length, groups, heads // groups, head_size)
    log_decay = (dt * A).view(batch, length, groups, heads // groups)
    state = state.view(batch, groups, heads // groups, head_size, state_size)

    outputs = []
    for start in range(0, length, chunk_size):
        chunk = slice(start, start + chunk_size)
        y, state = _chunk(x[:, chunk], log_decay[:, chunk], B[:, chunk], C[:, chunk], state)
        outputs.append(y)
    y = torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0]
    return y.reshape(batch, length, heads, head_size).to(dtype), state.flatten(1, 2)


def _chunk(x: Tensor, log_decay: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One chunk of tokens l: outputs and the state after it. x is already multiplied by Δ.

    Shapes: x [b, l, g, r, p], log_decay [b, l, g, r], B and C [b, l, g, n], state [b, g, r, p, n].
    """
    # Log of the decay since the start, [b, g, r, l]. In float64 because only differences are used: tokens
    # that reset the state drive the sum to −10⁴, where float32 keeps three digits of what follows them.
    total = torch.cumsum(log_decay, dim=1, dtype=torch.float64).permute(0, 2, 3, 1)
    length = total.shape[-1]
    # Decay from token j to token i ≥ j. Masked before exp: above the diagonal the exponent is positive and
    # could overflow.
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).to(x.dtype)
    between = torch.exp(between.masked_fill(future, -torch.inf))
    scores = torch.einsum("bign,bjgn->bgij", C, B)[:, :, None] * between  # [b, g, r, i, j]
    heads_first = x.permute(0, 2, 3, 1, 4)  # [b, g, r, l, p]
    inside = scores @ heads_first
    carried = torch.einsum("blgn,bgrpn->bgrlp", C, state) * torch.exp(total).to(x.dtype)[..., None]
    y = (inside + carried).permute(0, 3, 1, 2, 4)

    to_end = torch.exp(total[..., -1:] - total).to(x.dtype)[..., None] * heads_first  # [b, g, r, l, p]
    gained = torch.einsum("bgrlp,blgn->bgrpn", to_end, B)
    return y, torch.exp(total[..., -1]).to(x.dtype)[..., None, None] * state + gained
