# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Forward kernels: the states that enter the chunks, and the outputs within them.

With e_i the decay from the start of the chunk to token i, t_j from token j to its end, w over the whole chunk
and L_ij from token j to token i, a chunk that the state h enters and the state h' leaves computes

    y_i = e_i h C_i + Σ_{j ≤ i} L_ij (C_i · B_j) Δ_j x_j        h' = w h + Σ_j t_j Δ_j x_j B_jᵀ

(Dao & Gu 2024, arXiv 2405.21060, section 6). The carry kernel walks over the chunks of one head and keeps the
state in registers; the output kernel treats all chunks at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from implicit.ops.ssd.triton_kernels.device import (
    decay_between,
    decay_over_chunk,
    dot,
    load_steps,
    log_decay_sums,
)
from implicit.ops.ssd.triton_kernels.launch import Shape, tiles
from implicit.ops.triton_shared.device import load_columns, load_rows, store_rows
from implicit.ops.triton_shared.launch import Launch, rows, strided


@triton.jit
def carry_kernel(
    values, values_batch, values_token, keys, keys_batch, keys_token, dt, dt_batch, dt_token,
    A, boundary, carried, last, length, chunks, heads, heads_per_group,
    HEAD_SIZE: tl.constexpr, STATE_SIZE: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, REVERSE: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    """Carry the state of one head from chunk to chunk; with REVERSE its gradient, backwards.

    Values are x and keys B; in reverse they are dy and C, and w g + Σ_i e_i dy_i C_iᵀ is carried. With STORE,
    ``carried`` receives what enters each chunk from where the walk comes; ``last`` what comes out at its end.
    """
    # Which tile of the state, head and sequence.
    program = tl.program_id(0)
    tiles_n: tl.constexpr = (STATE_SIZE + BLOCK_N - 1) // BLOCK_N
    tiles_p: tl.constexpr = (HEAD_SIZE + BLOCK_P - 1) // BLOCK_P
    n = (program % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    program = program // tiles_n
    p = (program % tiles_p) * BLOCK_P + tl.arange(0, BLOCK_P)
    program = program // tiles_p
    head = program % heads
    batch = (program // heads).to(tl.int64)
    token = tl.arange(0, CHUNK)

    # h before the first chunk, or in reverse its gradient after the last.
    rate = tl.load(A + head).to(tl.float32)
    own_state = (batch * heads + head) * HEAD_SIZE * STATE_SIZE
    state = load_rows(boundary + own_state, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE).to(tl.float32)
    for step in range(chunks):
        if REVERSE:
            chunk = tl.cast(chunks - 1 - step, tl.int64)
        else:
            chunk = tl.cast(step, tl.int64)
        start = chunk * CHUNK
        if STORE:
            own_chunk = ((batch * chunks + chunk) * heads + head) * HEAD_SIZE * STATE_SIZE
            store_rows(carried + own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE, state)

        # Decays of the chunk, and the weight of each token: t_j Δ_j, in reverse e_i.
        remaining = tl.minimum(length - start, CHUNK).to(tl.int32)
        step_size = load_steps(dt + batch * dt_batch + start * dt_token + head, dt_token, token, remaining)
        coarse, fine = log_decay_sums(step_size, rate)
        from_start, to_end, whole = decay_over_chunk(coarse, fine, token, CHUNK)
        if REVERSE:
            weight = from_start
        else:
            weight = to_end * step_size
        # h ← w h + Σ_j (weight_j value_j) key_jᵀ.
        own_values = values + batch * values_batch + start * values_token + head * HEAD_SIZE
        value = load_columns(own_values, values_token, token, remaining, p, HEAD_SIZE)  # [BLOCK_P, CHUNK]
        own_keys = keys + batch * keys_batch + start * keys_token + (head // heads_per_group) * STATE_SIZE
        key = load_rows(own_keys, keys_token, token, remaining, n, STATE_SIZE)  # [CHUNK, BLOCK_N]
        weighted = (value.to(tl.float32) * weight[None, :]).to(key.dtype)
        state = dot(weighted, key, state * whole)
    store_rows(last + own_state, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE, state)


@triton.jit
def output_kernel(
    x, x_batch, x_token, dt, dt_batch, dt_token, B, B_batch, B_token, C, C_batch, C_token,
    A, entering, y, length, chunks, heads, heads_per_group,
    HEAD_SIZE: tl.constexpr, STATE_SIZE: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Outputs of one chunk of one head, for a tile of its head_size."""
    # Which tile of head_size, head, chunk and sequence.
    program = tl.program_id(0)
    tiles_p: tl.constexpr = (HEAD_SIZE + BLOCK_P - 1) // BLOCK_P
    p = (program % tiles_p) * BLOCK_P + tl.arange(0, BLOCK_P)
    program = program // tiles_p
    head = program % heads
    program = program // heads
    chunk = (program % chunks).to(tl.int64)
    batch = (program // chunks).to(tl.int64)
    token = tl.arange(0, CHUNK)
    start = chunk * CHUNK
    remaining = tl.minimum(length - start, CHUNK).to(tl.int32)
    group = head // heads_per_group

    B_start = B + batch * B_batch + start * B_token + group * STATE_SIZE
    C_start = C + batch * C_batch + start * C_token + group * STATE_SIZE
    own_chunk = entering + ((batch * chunks + chunk) * heads + head) * HEAD_SIZE * STATE_SIZE
    # C_i · B_j and h C_i.
    scores = tl.zeros((CHUNK, CHUNK), tl.float32)
    carried = tl.zeros((CHUNK, BLOCK_P), tl.float32)
    for first in range(0, STATE_SIZE, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        key = load_columns(B_start, B_token, token, remaining, n, STATE_SIZE)  # [BLOCK_N, CHUNK]
        query = load_rows(C_start, C_token, token, remaining, n, STATE_SIZE)  # [CHUNK, BLOCK_N]
        state = load_columns(own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE)  # [BLOCK_N, BLOCK_P]
        scores = dot(query, key, scores)
        carried = dot(query, state.to(query.dtype), carried)

    # y_i = e_i h C_i + Σ_{j ≤ i} L_ij (C_i · B_j) Δ_j x_j.
    rate = tl.load(A + head).to(tl.float32)
    step_size = load_steps(dt + batch * dt_batch + start * dt_token + head, dt_token, token, remaining)
    coarse, fine = log_decay_sums(step_size, rate)
    value = load_rows(
        x + batch * x_batch + start * x_token + head * HEAD_SIZE, x_token, token, remaining, p, HEAD_SIZE
    )
    weights = (scores * decay_between(coarse, fine, token) * step_size[None, :]).to(value.dtype)
    outputs = dot(weights, value, carried * tl.exp(coarse + fine)[:, None])
    y_start = y + ((batch * length + start) * heads + head) * HEAD_SIZE
    store_rows(y_start, heads * HEAD_SIZE, token, remaining, p, HEAD_SIZE, outputs)


def carry(
    values: Tensor, keys: Tensor, dt: Tensor, A: Tensor, boundary: Tensor, *, reverse: bool
) -> tuple[Launch, Tensor, Tensor]:
    """Plan the walk over the chunks, or with ``reverse`` back over them, carrying the state's gradient.

    Return the launch, what enters each chunk, ``[batch, chunks, heads, head_size, state_size]`` in the dtype
    of ``values``, and what comes out at the end, shaped like ``boundary``, float32.
    """
    shape = Shape.of(values, keys)
    boundary, several = boundary.contiguous(), shape.chunks > 1
    carried = boundary
    if several:
        carried = values.new_empty(
            shape.batch, shape.chunks, shape.heads, shape.head_size, shape.state_size, dtype=values.dtype
        )
    last = torch.empty(boundary.shape, dtype=torch.float32, device=boundary.device)
    tile = tiles("carry", shape, values.dtype)
    launch = Launch(
        carry_kernel,
        shape.batch
        * shape.heads
        * triton.cdiv(shape.head_size, tile.rows)
        * triton.cdiv(shape.state_size, tile.columns),
        {
            **strided(values=rows(values), keys=rows(keys), dt=rows(dt)),
            "A": A.contiguous(),
            "boundary": boundary,
            "carried": carried,
            "last": last,
            **shape.arguments(),
        },
        {**shape.constants(), **tile.constants("P", "N"), "REVERSE": reverse, "STORE": several},
        tile,
    )
    return launch, carried, last


def outputs(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, entering: Tensor
) -> tuple[Launch, Tensor]:
    """Plan the outputs of all chunks, from the states that enter them; return the launch and the outputs."""
    shape = Shape.of(x, B)
    y = x.new_empty(shape.batch, shape.length, shape.heads, shape.head_size)
    tile = tiles("output", shape, x.dtype)
    launch = Launch(
        output_kernel,
        shape.batch * shape.chunks * shape.heads * triton.cdiv(shape.head_size, tile.rows),
        {
            **strided(x=rows(x), dt=rows(dt), B=rows(B), C=rows(C)),
            "A": A.contiguous(),
            "entering": entering,
            "y": y,
            **shape.arguments(),
        },
        {**shape.constants(), **tile.constants("P", "N")},
        tile,
    )
    return launch, y
