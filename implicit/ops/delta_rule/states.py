"""The memory of the gated delta rule after every token, for what has to start again within a sequence."""

import torch
from torch import Tensor

from implicit.ops.delta_rule.chunked import CHUNK_SIZE, rows, solve_chunk
from implicit.ops.delta_rule.decays import Decays


def delta_rule_states(
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    log_decay: Tensor | None = None,
    steps_per_token: int = 1,
) -> Tensor:
    """Return the memory before every token and after the last one.

    Args:
        k: keys, ``[batch, steps, heads, d_k]``.
        v: values, ``[batch, steps, heads, d_v]``.
        beta: strengths of writing, ``[batch, steps, heads]``.
        initial_state: before the first token, ``[batch, heads, d_k, d_v]``; its dtype is that of the result.
        log_decay: logarithms of the decays, shaped like ``beta``; no decay if None.
        steps_per_token: n; the memory is returned after every n-th step.

    Returns:
        ``[batch, steps / n + 1, heads, d_k, d_v]``.

    Example:
        >>> key = torch.ones(1, 2, 1, 1)
        >>> v = torch.tensor([3.0, 5.0]).view(1, 2, 1, 1)
        >>> delta_rule_states(key, v, torch.ones(1, 2, 1), torch.zeros(1, 1, 1, 1)).flatten()
        tensor([0., 3., 5.])
    """
    batch, steps, heads = k.shape[:3]
    k, v, beta = (rows(tensor).to(initial_state.dtype) for tensor in (k, v, beta[..., None]))
    if log_decay is not None:
        log_decay = rows(log_decay[..., None]).to(initial_state.dtype)
    state = initial_state.flatten(0, 1)
    visited = [state[:, None]]
    for start in range(0, steps, CHUNK_SIZE):
        chunk = slice(start, start + CHUNK_SIZE)
        decays = None if log_decay is None else Decays(log_decay[:, chunk])
        added = solve_chunk(k[:, chunk], v[:, chunk], beta[:, chunk], decays, state)
        gains = k[:, chunk, :, None] * added[..., None, :]  # [rows, steps, d_k, d_v]
        if decays is None:
            after = state[:, None] + gains.cumsum(1)
        else:
            gained = (decays.between @ gains.flatten(2)).view_as(gains)
            after = decays.since_start[..., None] * state[:, None] + gained
        visited.append(after)
        state = after[:, -1]
    after = torch.cat(visited[1:], dim=1)[:, steps_per_token - 1 :: steps_per_token]
    return torch.cat([visited[0], after], dim=1).unflatten(0, (batch, heads)).transpose(1, 2)
