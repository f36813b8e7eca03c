"""The gated delta rule as matrix products over chunks of the sequence: the CPU path.

With S the memory before a chunk, g_i the sum of the log decays up to and with step i, and u_i what step i
adds at its key:

    S_i = exp(g_i) S + Σ_{j ≤ i} exp(g_i − g_j) k_j u_jᵀ
    u_i = β_i (v_i − exp(g_i) Sᵀ k_i − Σ_{j < i} exp(g_i − g_j) (k_i · k_j) u_j)

The second line is a unit lower triangular system for all u of a chunk (the UT transform of Yang et al. 2024,
arXiv 2406.06484; with decays arXiv 2412.06464); the first then gives outputs and the next memory.
"""

from typing import Any

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.delta_rule.decays import Decays
from implicit.ops.delta_rule.reference import delta_rule_reference
from implicit.ops.not_finite import not_finite_sequences

CHUNK_SIZE = 32
"""Steps per chunk unless told otherwise: the fastest, or within 10% of it, of 16 to 64 on a CPU."""


def delta_rule_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    initial_state: Tensor | None = None,
    chunk_size: int = CHUNK_SIZE,
) -> tuple[Tensor, Tensor]:
    """Compute what `delta_rule_reference` computes, a chunk of steps at a time.

    Half-precision inputs are accumulated in float32; the outputs come back in the dtype of ``v``. It is
    differentiable to any order and in forward mode.

    Args:
        q: queries, ``[batch, length, heads, d_k]``.
        k: keys, ``[batch, n · length, heads, d_k]`` for n steps per token.
        v: values, ``[batch, n · length, heads, d_v]``.
        beta: strengths of writing, ``[batch, n · length, heads]``.
        log_decay: logarithms of the decays, shaped like ``beta``, finite; no decay if None.
        initial_state: memory before the first token, ``[batch, heads, d_k, d_v]``; zero if None.
        chunk_size: steps per chunk; rounded up to whole tokens. Any length works, the last chunk is shorter.

    Returns:
        The outputs, ``[batch, length, heads, d_v]``, and the memory after the last token (float32 for half
        precision).

    Raises:
        InputError: for a chunk size below 1.

    Example:
        >>> key = torch.ones(1, 2, 1, 1)
        >>> v = torch.tensor([3.0, 5.0]).view(1, 2, 1, 1)
        >>> y, state = delta_rule_chunked(key, key, v, torch.ones(1, 2, 1), chunk_size=1)
        >>> y.flatten().tolist(), state.item()
        ([3.0, 5.0], 5.0)
    """
    if chunk_size < 1:
        raise InputError(f"chunk_size is {chunk_size}; give at least 1")
    dtype = v.dtype
    given: tuple[Any, ...] = (q, k, v, beta, log_decay, initial_state)
    batch, length, heads = q.shape[:3]
    steps_per_token = k.shape[1] // length
    q, k, v = (rows(tensor) for tensor in (q, k, v))
    beta = rows(beta[..., None])
    log_decay = None if log_decay is None else rows(log_decay[..., None])
    state = None if initial_state is None else initial_state.to(v.dtype).flatten(0, 1)
    tokens = -(-chunk_size // steps_per_token)  # per chunk
    outputs = []
    for start in range(0, length, tokens):
        of_tokens = slice(start, start + tokens)
        of_steps = slice(start * steps_per_token, (start + tokens) * steps_per_token)
        decays = None if log_decay is None else Decays(log_decay[:, of_steps])
        keys = k[:, of_steps]
        added = solve_chunk(keys, v[:, of_steps], beta[:, of_steps], decays, state)
        outputs.append(_read(q[:, of_tokens], keys, added, decays, state, steps_per_token))
        state = _advance(keys, added, decays, state)
    assert state is not None  # there is at least one chunk
    y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
    y, state = y.unflatten(0, (batch, heads)).transpose(1, 2).to(dtype), state.unflatten(0, (batch, heads))
    repeated = not_finite_sequences(y)
    if repeated is not None:
        taken: Any = (None if part is None else part[repeated] for part in given)
        own = delta_rule_reference(*taken)
        y, state = (
            whole.index_copy(0, repeated, part.to(whole.dtype))
            for whole, part in zip((y, state), own, strict=True)
        )
    return y, state


def rows(tensor: Tensor) -> Tensor:
    """Return ``[batch, steps, heads, features]`` as rows, ``[batch · heads, steps, features]``.

    In float32 or wider, and in order in memory: matrix products would make a copy each time.

    Example:
        >>> rows(torch.zeros(2, 3, 4, 1, dtype=torch.bfloat16)).shape
        torch.Size([8, 3, 1])
    """
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32)).transpose(1, 2).flatten(0, 1)


def solve_chunk(k: Tensor, v: Tensor, beta: Tensor, decays: Decays | None, state: Tensor | None) -> Tensor:
    """Return what every step of a chunk adds at its key, u of the formula at the top of this file.

    Args:
        k: ``[rows, steps, d_k]``, see `rows`.
        v: ``[rows, steps, d_v]``.
        beta: ``[rows, steps, 1]``.
        decays: within the chunk; no decay if None.
        state: before the chunk, ``[rows, d_k, d_v]``; zero if None.

    Returns:
        ``[rows, steps, d_v]``.

    Example:
        >>> one = torch.ones(1, 1, 1)
        >>> solve_chunk(one, 3 * one, one, None, 2 * one).item()
        1.0
    """
    written, expected = beta * k, beta * v
    system = written @ k.mT
    if decays is not None:
        system = system * decays.between
        written = written * decays.since_start
    if state is not None:
        expected = torch.baddbmm(expected, written, state, alpha=-1)
    # Reads what stands below the diagonal only.
    return torch.linalg.solve_triangular(system, expected, upper=False, unitriangular=True)


def _read(
    q: Tensor, k: Tensor, added: Tensor, decays: Decays | None, state: Tensor | None, steps_per_token: int
) -> Tensor:
    """The outputs of a chunk, ``[rows, tokens, d_v]``: each token reads after its last step."""
    last = slice(steps_per_token - 1, None, steps_per_token)
    scores = q @ k.mT  # [rows, tokens, steps]
    if decays is None:
        steps = k.shape[1]
        scores = scores * torch.ones(steps, steps, dtype=k.dtype, device=k.device).tril()[last]
    else:
        scores = scores * decays.between[:, last]
        q = q * decays.since_start[:, last]
    outputs = scores @ added
    return outputs if state is None else torch.baddbmm(outputs, q, state)


def _advance(k: Tensor, added: Tensor, decays: Decays | None, state: Tensor | None) -> Tensor:
    """The memory after a chunk."""
    if decays is not None:
        k = k * decays.to_end
        state = None if state is None else decays.over_chunk * state
    return k.mT @ added if state is None else torch.baddbmm(state, k.mT, added)
