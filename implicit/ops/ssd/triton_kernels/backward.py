# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Backward kernels: the gradients within the chunks, once the state and its gradient have been carried.

In the notation of `forward`, with u_j = Δ_j x_j, a_k = Δ_k A, h the state that enters the chunk, g the
gradient of the one that leaves it, S_ij = C_i · B_j and V_ij = dy_i · x_j (L_ij = 0 for j > i):

    du_j = Σ_i S_ij L_ij dy_i + t_j g B_j              dx_j = Δ_j du_j
    dB_j = Σ_i L_ij V_ij Δ_j C_i + t_j gᵀ u_j          summed over the heads of the group
    dC_i = Σ_j L_ij V_ij Δ_j B_j + e_i hᵀ dy_i         likewise
    dΔ_k = x_k · du_k + A da_k                         dA = Σ_k Δ_k da_k
    da_k = Σ_{j < k ≤ i} S_ij L_ij V_ij Δ_j            decays from token to token
           + Σ_{i ≥ k} e_i dy_i · h C_i                from the start to a token
           + Σ_{j < k} t_j u_j · g B_j                 from a token to the end
           + w ⟨g, h⟩                                  over the whole chunk

The terms of da_k, one for each kind of decay that passes token k, are summed as they stand. The shorter way,
the running sum of y_i · dy_i − u_i · du_i, leaves rounding errors of the whole chunk where da_k itself is
zero, and dΔ multiplies them by A.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from implicit.ops.ssd.triton_kernels.device import (
    decay_between,
    decay_between_transposed,
    decay_over_chunk,
    dot,
    load_steps,
    log_decay_sums,
)
from implicit.ops.ssd.triton_kernels.launch import Shape, tiles
from implicit.ops.triton_shared.device import load_columns, load_rows, store_rows
from implicit.ops.triton_shared.launch import Launch, rows, strided

ENOUGH_PROGRAMS = 1024
"""Programs that keep a large GPU busy: some 130 multiprocessors with several programs each."""


@triton.jit
def input_gradient_kernel(
    x, x_batch, x_token, dt, dt_batch, dt_token, B, B_batch, B_token, C, C_batch, C_token,
    dy, dy_batch, dy_token, A, entering, leaving, dx, ddt, dA,
    length, chunks, heads, heads_per_group,
    HEAD_SIZE: tl.constexpr, STATE_SIZE: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of x, Δ and A from one chunk of one head. Matrices are transposed: [token j, token i]."""
    # Which head, chunk and sequence; the last chunk may have fewer tokens.
    program = tl.program_id(0)
    head = program % heads
    program = program // heads
    chunk = (program % chunks).to(tl.int64)
    batch = (program // chunks).to(tl.int64)
    token = tl.arange(0, CHUNK)
    start = chunk * CHUNK
    remaining = tl.minimum(length - start, CHUNK).to(tl.int32)
    group = head // heads_per_group

    x_start = x + batch * x_batch + start * x_token + head * HEAD_SIZE
    dy_start = dy + batch * dy_batch + start * dy_token + head * HEAD_SIZE
    B_start = B + batch * B_batch + start * B_token + group * STATE_SIZE
    C_start = C + batch * C_batch + start * C_token + group * STATE_SIZE
    own_chunk = ((batch * chunks + chunk) * heads + head) * HEAD_SIZE * STATE_SIZE
    own_row = (batch * length + start) * heads + head

    # S_ij = C_i · B_j, transposed.
    scores = tl.zeros((CHUNK, CHUNK), tl.float32)
    for first_n in range(0, STATE_SIZE, BLOCK_N):
        n = first_n + tl.arange(0, BLOCK_N)
        key = load_rows(B_start, B_token, token, remaining, n, STATE_SIZE)
        query = load_columns(C_start, C_token, token, remaining, n, STATE_SIZE)
        scores = dot(key, query, scores)

    # e, t and w of the chunk; then S_ij L_ij, transposed.
    rate = tl.load(A + head).to(tl.float32)
    step_size = load_steps(dt + batch * dt_batch + start * dt_token + head, dt_token, token, remaining)
    coarse, fine = log_decay_sums(step_size, rate)
    from_start, to_end, whole = decay_over_chunk(coarse, fine, token, CHUNK)
    scores *= decay_between_transposed(coarse, fine, token)

    # Over tiles of head_size: V_ij = dy_i · x_j, and the products with h and g.
    products = tl.zeros((CHUNK, CHUNK), tl.float32)  # x_j · dy_i
    outward = tl.zeros((CHUNK,), tl.float32)  # dy_i · h C_i
    inward = tl.zeros((CHUNK,), tl.float32)  # x_j · g B_j
    across = tl.full((), 0.0, tl.float32)  # ⟨g, h⟩
    for first_p in range(0, HEAD_SIZE, BLOCK_P):
        p = first_p + tl.arange(0, BLOCK_P)
        # h C_i, g B_j and ⟨g, h⟩.
        from_h = tl.zeros((CHUNK, BLOCK_P), tl.float32)
        from_g = tl.zeros((CHUNK, BLOCK_P), tl.float32)
        for first_n in range(0, STATE_SIZE, BLOCK_N):
            n = first_n + tl.arange(0, BLOCK_N)
            h = load_columns(entering + own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE)
            g = load_columns(leaving + own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE)
            key = load_rows(B_start, B_token, token, remaining, n, STATE_SIZE)
            query = load_rows(C_start, C_token, token, remaining, n, STATE_SIZE)
            from_h = dot(query, h.to(query.dtype), from_h)
            from_g = dot(key, g.to(key.dtype), from_g)
            across += tl.sum(tl.sum(h.to(tl.float32) * g.to(tl.float32), 1), 0)
        value = load_rows(x_start, x_token, token, remaining, p, HEAD_SIZE)
        gradient = load_rows(dy_start, dy_token, token, remaining, p, HEAD_SIZE)
        products = dot(value, tl.trans(gradient), products)
        outward += tl.sum(gradient.to(tl.float32) * from_h, 1)
        inward += tl.sum(value.to(tl.float32) * from_g, 1)
        # du_j = Σ_i S_ij L_ij dy_i + t_j g B_j, and dx_j = Δ_j du_j.
        du = dot(scores.to(gradient.dtype), gradient, from_g * to_end[:, None])
        dx_start = dx + own_row * HEAD_SIZE
        store_rows(dx_start, heads * HEAD_SIZE, token, remaining, p, HEAD_SIZE, du * step_size[:, None])

    # x_k · du_k, then the four sums of da_k: within, from the start, to the end, over the whole chunk.
    inside = scores * products
    along_x = tl.sum(inside, 1) + to_end * inward  # x_j · du_j
    inside *= step_size[:, None]
    passing = (
        tl.cumsum(inside, 1, reverse=True) + (to_end * step_size * inward)[:, None]
    )  # [token j, token k]
    passing = tl.sum(tl.where(token[:, None] < token[None, :], passing, 0.0), 0)
    da = passing + tl.cumsum(from_start * outward, 0, reverse=True) + whole * across
    # dΔ_k = x_k · du_k + A da_k, dA = Σ_k Δ_k da_k.
    tl.store(ddt + own_row + token * heads, along_x + rate * da, mask=token < remaining)
    tl.store(dA + (batch * chunks + chunk) * heads + head, tl.sum(step_size * da, 0))


@triton.jit
def projection_gradient_kernel(
    x, x_batch, x_token, dt, dt_batch, dt_token, B, B_batch, B_token, C, C_batch, C_token,
    dy, dy_batch, dy_token, A, entering, leaving, dB, dC,
    length, chunks, heads, heads_per_group, heads_per_program, parts,
    HEAD_SIZE: tl.constexpr, STATE_SIZE: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of B and C from one chunk, for a tile of state_size, summed over some heads of a group."""
    # Which tile of state_size, part of the heads, group, chunk and sequence.
    program = tl.program_id(0)
    tiles_n: tl.constexpr = (STATE_SIZE + BLOCK_N - 1) // BLOCK_N
    n = (program % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    program = program // tiles_n
    part = program % parts
    program = program // parts
    groups = heads // heads_per_group
    group = program % groups
    program = program // groups
    chunk = (program % chunks).to(tl.int64)
    batch = (program // chunks).to(tl.int64)
    token = tl.arange(0, CHUNK)
    start = chunk * CHUNK
    remaining = tl.minimum(length - start, CHUNK).to(tl.int32)

    weights = tl.zeros((CHUNK, CHUNK), tl.float32)  # Σ_heads L_ij V_ij Δ_j
    key_gradient = tl.zeros((CHUNK, BLOCK_N), tl.float32)
    query_gradient = tl.zeros((CHUNK, BLOCK_N), tl.float32)
    # Sums over the heads of this part: the terms with g and h, and the weights L_ij V_ij Δ_j.
    for index in range(heads_per_program):
        head = group * heads_per_group + part * heads_per_program + index
        rate = tl.load(A + head).to(tl.float32)
        step_size = load_steps(dt + batch * dt_batch + start * dt_token + head, dt_token, token, remaining)
        coarse, fine = log_decay_sums(step_size, rate)
        from_start, to_end, _ = decay_over_chunk(coarse, fine, token, CHUNK)
        x_start = x + batch * x_batch + start * x_token + head * HEAD_SIZE
        dy_start = dy + batch * dy_batch + start * dy_token + head * HEAD_SIZE
        own_chunk = ((batch * chunks + chunk) * heads + head) * HEAD_SIZE * STATE_SIZE
        products = tl.zeros((CHUNK, CHUNK), tl.float32)  # dy_i · x_j
        for first_p in range(0, HEAD_SIZE, BLOCK_P):
            p = first_p + tl.arange(0, BLOCK_P)
            # V_ij = dy_i · x_j;  dB_j += (t_j Δ_j x_j)ᵀ g;  dC_i += (e_i dy_i)ᵀ h.
            value = load_rows(x_start, x_token, token, remaining, p, HEAD_SIZE)
            gradient = load_rows(dy_start, dy_token, token, remaining, p, HEAD_SIZE)
            h = load_rows(entering + own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE)
            g = load_rows(leaving + own_chunk, STATE_SIZE, p, HEAD_SIZE, n, STATE_SIZE)
            products = dot(gradient, tl.trans(value), products)
            weighted = value.to(tl.float32) * (to_end * step_size)[:, None]
            key_gradient = dot(weighted.to(value.dtype), g.to(value.dtype), key_gradient)
            weighted = gradient.to(tl.float32) * from_start[:, None]
            query_gradient = dot(weighted.to(value.dtype), h.to(value.dtype), query_gradient)
        weights += products * decay_between(coarse, fine, token) * step_size[None, :]

    # dC_i += Σ_j L_ij V_ij Δ_j B_j and dB_j += Σ_i L_ij V_ij Δ_j C_i.
    key = load_rows(
        B + batch * B_batch + start * B_token + group * STATE_SIZE, B_token, token, remaining, n, STATE_SIZE
    )
    query = load_rows(
        C + batch * C_batch + start * C_token + group * STATE_SIZE, C_token, token, remaining, n, STATE_SIZE
    )
    weights = weights.to(key.dtype)
    query_gradient = dot(weights, key, query_gradient)
    key_gradient = dot(tl.trans(weights), query, key_gradient)
    # [parts, batch, length, groups, state_size]
    batches = tl.num_programs(0) // (tiles_n * parts * groups * chunks)
    own_row = (((part * batches + batch) * length + start) * groups + group) * STATE_SIZE
    stride = groups * STATE_SIZE
    store_rows(dB + own_row, stride, token, remaining, n, STATE_SIZE, key_gradient)
    store_rows(dC + own_row, stride, token, remaining, n, STATE_SIZE, query_gradient)


def input_gradients(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, dy: Tensor, entering: Tensor, leaving: Tensor
) -> tuple[Launch, Tensor, Tensor, Tensor]:
    """Plan the gradients of x, Δ and, a chunk, A, from that of the outputs and `carry` in both directions."""
    shape = Shape.of(x, B)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    ddt = torch.empty(dt.shape, dtype=torch.float32, device=x.device)
    dA = torch.empty((shape.batch, shape.chunks, shape.heads), dtype=torch.float32, device=x.device)
    tile = tiles("input_gradient", shape, x.dtype)
    launch = Launch(
        input_gradient_kernel,
        shape.batch * shape.chunks * shape.heads,
        {
            **strided(x=rows(x), dt=rows(dt), B=rows(B), C=rows(C), dy=rows(dy)),
            "A": A.contiguous(),
            "entering": entering,
            "leaving": leaving,
            "dx": dx,
            "ddt": ddt,
            "dA": dA,
            **shape.arguments(),
        },
        {**shape.constants(), **tile.constants("P", "N")},
        tile,
    )
    return launch, dx, ddt, dA


def projection_gradients(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, dy: Tensor, entering: Tensor, leaving: Tensor
) -> tuple[Launch, Tensor, Tensor]:
    """Plan the gradients of B and C in parts, float32, ``[parts, batch, length, groups, state_size]``.

    A program sums several heads; the fewer programs there are, the fewer heads.
    """
    shape = Shape.of(x, B)
    tile = tiles("projection_gradient", shape, x.dtype)
    programs = shape.batch * shape.chunks * shape.groups * triton.cdiv(shape.state_size, tile.columns)
    heads_per_group = shape.heads // shape.groups
    wanted = min(heads_per_group, -(-ENOUGH_PROGRAMS // programs))
    parts = next(n for n in range(wanted, heads_per_group + 1) if heads_per_group % n == 0)
    dB = torch.empty((parts, *B.shape), dtype=torch.float32, device=x.device)
    dC = torch.empty_like(dB)
    launch = Launch(
        projection_gradient_kernel,
        programs * parts,
        {
            **strided(x=rows(x), dt=rows(dt), B=rows(B), C=rows(C), dy=rows(dy)),
            "A": A.contiguous(),
            "entering": entering,
            "leaving": leaving,
            "dB": dB,
            "dC": dC,
            **shape.arguments(),
            "heads_per_program": heads_per_group // parts,
            "parts": parts,
        },
        {**shape.constants(), **tile.constants("P", "N")},
        tile,
    )
    return launch, dB, dC
