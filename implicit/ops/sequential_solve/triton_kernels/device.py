# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""One layer of the self-map and its state update, as functions that run inside the kernel.

A program is one sequence. Vectors that one step of a layer writes and the next one reads lie in global memory
that belongs to the program alone (a few kilobytes, so in practice in the cache next to it), with a barrier
between the two. Sums are in float32 whatever the element type of the weights.

| memory      | size                            | content                                                  |
|-------------|---------------------------------|----------------------------------------------------------|
| `stream`    | layers + 1 times D_MODEL        | the latent, then the residual stream after each layer    |
| `projected` | layers times D_IN_PROJ          | gate, channels and Δ before convolution and softplus     |
| `activated` | layers times CHANNELS           | x, B and C: the channels after convolution and silu      |
| `gated`     | D_INNER                         | (y + D x) silu(gate), not yet normalised                 |
| `factors`   | GROUPS                          | the factor of the gated norm, one per group              |
"""

import triton
import triton.language as tl

from implicit.ops.triton_shared.device import silu


@triton.jit
def softplus(x):
    """Return log(1 + e^x) to float32 rounding: step sizes of 1e-3 are all of them log(1 + small)."""
    small = tl.exp(-tl.abs(x))
    total = 1.0 + small
    # Goldberg's correction: what rounding adds to 1 + small is divided out again.
    rest = tl.where(total == 1.0, small, tl.log(total) * small / tl.where(total == 1.0, 1.0, total - 1.0))
    return tl.where(x > 0, x, 0.0) + rest


@triton.jit
def norm_factor(x, COUNT: tl.constexpr, epsilon):
    """Return (mean(x²) + ε)^(−1/2) of a vector that is zero past its ``COUNT`` entries."""
    return norm_factor_of(tl.sum(x * x, 0), COUNT, epsilon)


@triton.jit
def norm_factor_of(squares, COUNT: tl.constexpr, epsilon):
    """Return (squares / COUNT + ε)^(−1/2); NaN where they overflow, as in `implicit.ops.norm_factor`."""
    return tl.where(squares < float("inf"), tl.rsqrt(squares / COUNT + epsilon), float("nan"))


@triton.jit
def vector_norm(x):
    """Return ‖x‖, also where squares overflow or vanish."""
    squares = tl.sum(x * x, 0)
    largest = tl.max(tl.where(x == x, tl.abs(x), 0.0), 0)  # NaN stays in the sum below
    scaled = x / tl.where(largest > 0, largest, 1.0)
    held = (squares > 1.1754943508222875e-38) & (squares < float("inf"))
    return tl.where(held, tl.sqrt_rn(squares), largest * tl.sqrt_rn(tl.sum(scaled * scaled, 0)))


@triton.jit
def add_products(
    total,
    matrix,
    WIDTH: tl.constexpr,
    row,
    inside_row,
    vector,
    weight,
    factor,
    COUNT: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Add to ``total`` products of a matrix with factor · vector · weight, to be summed over columns."""
    for start in range(0, COUNT, BLOCK_COLUMNS):
        column = start + tl.arange(0, BLOCK_COLUMNS)
        inside = column < COUNT
        entry = tl.load(vector + column, mask=inside, other=0.0) * factor
        if weight is not None:
            entry *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
        tile = tl.load(
            matrix + (row[:, None] * WIDTH + column[None, :]),
            mask=inside_row[:, None] & inside[None, :],
            other=0.0,
        )
        total += tile.to(tl.float32) * entry[None, :]
    return total


@triton.jit
def project(
    stream, mixer_norm, in_proj, injection, window, conv_weight, conv_bias, projected, activated, epsilon,
    D_MODEL: tl.constexpr, D_INNER: tl.constexpr, CHANNELS: tl.constexpr, D_IN_PROJ: tl.constexpr,
    D_CONV: tl.constexpr, PADDED_MODEL: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Norm, input projection with injection, and the short convolution of this token with its window."""
    # r = (mean s² + ε)^(−1/2).
    feature = tl.arange(0, PADDED_MODEL)
    factor = norm_factor(tl.load(stream + feature, mask=feature < D_MODEL, other=0.0), D_MODEL, epsilon)
    for first in range(0, D_IN_PROJ, BLOCK_ROWS):
        row = first + tl.arange(0, BLOCK_ROWS)
        inside = row < D_IN_PROJ
        # What the products are added to comes first, so that its way from memory is theirs too.
        value = tl.load(injection + row, mask=inside, other=0.0).to(tl.float32)
        # bias + Σ_{k < K−1} tap_k p_{t−K+1+k}: the earlier tokens of the convolution.
        channel = row - D_INNER
        is_channel = (channel >= 0) & (channel < CHANNELS)
        convolved = tl.load(conv_bias + channel, mask=is_channel, other=0.0).to(tl.float32)
        for k in tl.static_range(D_CONV - 1):
            past = tl.load(window + channel * (D_CONV - 1) + k, mask=is_channel, other=0.0)
            tap = tl.load(conv_weight + channel * D_CONV + k, mask=is_channel, other=0.0)
            convolved += past.to(tl.float32) * tap.to(tl.float32)
        tap = tl.load(conv_weight + channel * D_CONV + (D_CONV - 1), mask=is_channel, other=0.0)

        # W_in (r s weight) + injection; the channels are completed with the last tap and activated.
        zeros = tl.full((BLOCK_ROWS, BLOCK_COLUMNS), 0.0, tl.float32)
        products = add_products(
            zeros, in_proj, D_MODEL, row, inside, stream, mixer_norm, factor, D_MODEL, BLOCK_COLUMNS
        )
        value += tl.sum(products, 1)
        tl.store(projected + row, value, mask=inside)
        tl.store(activated + channel, silu(convolved + value * tap.to(tl.float32)), mask=is_channel)


@triton.jit
def step_and_decay(projected, dt_bias, A_log, head, inside):
    """Return Δ and exp(Δ A) of the heads that rows of the state belong to; ``projected`` starts at Δ."""
    raw = tl.load(projected + head, mask=inside, other=0.0)
    dt = softplus(raw + tl.load(dt_bias + head, mask=inside, other=0.0).to(tl.float32))
    rate = -tl.exp(tl.load(A_log + head, mask=inside, other=0.0).to(tl.float32))
    return dt, tl.exp(dt * rate)


@triton.jit
def read_state(
    projected, activated, state, dt_bias, A_log, D, gated, factors, epsilon,
    D_INNER: tl.constexpr, CHANNELS: tl.constexpr, HEAD_SIZE: tl.constexpr, D_STATE: tl.constexpr,
    GROUPS: tl.constexpr, PADDED_STATE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Skip connection, gate and norm factor of y = (e^(ΔA) h + Δ x Bᵀ) C = e^(ΔA) h C + Δ (B · C) x.

    The second form reads the state before the token and writes none: only z* makes a new one.
    """
    rows_per_group: tl.constexpr = D_INNER // GROUPS
    column = tl.arange(0, PADDED_STATE)
    for group in range(GROUPS):
        B = activated + D_INNER + group * D_STATE
        C = B + GROUPS * D_STATE
        # B · C of the group.
        overlap = tl.sum(
            tl.load(B + column, mask=column < D_STATE, other=0.0)
            * tl.load(C + column, mask=column < D_STATE, other=0.0),
            0,
        )
        squares = tl.full((BLOCK_ROWS,), 0.0, tl.float32)
        for first in range(0, rows_per_group, BLOCK_ROWS):
            row_of_group = first + tl.arange(0, BLOCK_ROWS)
            inside = row_of_group < rows_per_group
            row = group * rows_per_group + row_of_group
            head = row // HEAD_SIZE
            # Rows of the state, one for each feature: Δ, e^(ΔA), x, D and silu(gate).
            dt, decay = step_and_decay(projected + D_INNER + CHANNELS, dt_bias, A_log, head, inside)
            x = tl.load(activated + row, mask=inside, other=0.0)
            skip = tl.load(D + head, mask=inside, other=0.0).to(tl.float32)
            opened = silu(tl.load(projected + row, mask=inside, other=0.0))
            # h C.
            zeros = tl.full((BLOCK_ROWS, BLOCK_COLUMNS), 0.0, tl.float32)
            products = add_products(zeros, state, D_STATE, row, inside, C, None, 1.0, D_STATE, BLOCK_COLUMNS)
            # q = (e^(ΔA) h C + (Δ (B · C) + D) x) silu(gate), and Σ q² for the norm.
            y = (decay * tl.sum(products, 1) + (dt * overlap + skip) * x) * opened
            y = tl.where(inside, y, 0.0)
            tl.store(gated + row, y, mask=inside)
            squares += y * y
        tl.store(factors + group, norm_factor_of(tl.sum(squares, 0), rows_per_group, epsilon))


@triton.jit
def project_back(
    gated, factors, gate_norm, out_proj, before, after,
    D_MODEL: tl.constexpr, D_INNER: tl.constexpr, GROUPS: tl.constexpr, RESIDUAL: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gated norm, output projection and residual: from the stream before the layer to the one after it."""
    columns_per_group: tl.constexpr = D_INNER // GROUPS
    for first in range(0, D_MODEL, BLOCK_ROWS):
        row = first + tl.arange(0, BLOCK_ROWS)
        inside = row < D_MODEL
        output = tl.full((BLOCK_ROWS,), 0.0, tl.float32)
        if RESIDUAL:
            output += tl.load(before + row, mask=inside, other=0.0)
        products = tl.full((BLOCK_ROWS, BLOCK_COLUMNS), 0.0, tl.float32)
        for group in range(GROUPS):
            products = add_products(
                products, out_proj + group * columns_per_group, D_INNER, row, inside,
                gated + group * columns_per_group, gate_norm + group * columns_per_group,
                tl.load(factors + group), columns_per_group, BLOCK_COLUMNS,
            )  # fmt: skip
        tl.store(after + row, output + tl.sum(products, 1), mask=inside)


@triton.jit
def advance_state(
    projected, activated, window, state, dt_bias, A_log,
    D_INNER: tl.constexpr, CHANNELS: tl.constexpr, HEAD_SIZE: tl.constexpr, D_STATE: tl.constexpr,
    GROUPS: tl.constexpr, D_CONV: tl.constexpr, PADDED_WINDOW: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Replace window and state by those after the token, from what the last evaluation left.

    Each tile is read by all threads before any of them replaces an entry.
    """
    # window ← (window without its oldest token, p).
    if D_CONV > 1:
        tap = tl.arange(0, PADDED_WINDOW)[None, :]
        for first in range(0, CHANNELS, BLOCK_ROWS):
            channel = first + tl.arange(0, BLOCK_ROWS)
            inside = channel < CHANNELS
            place = window + (channel[:, None] * (D_CONV - 1) + tap)
            shifted = tl.load(place + 1, mask=inside[:, None] & (tap < D_CONV - 2), other=0.0)
            newest = tl.load(projected + D_INNER + channel, mask=inside, other=0.0)
            following = tl.where(tap == D_CONV - 2, newest[:, None], shifted.to(tl.float32))
            tl.debug_barrier()
            tl.store(place, following.to(window.dtype.element_ty), mask=inside[:, None] & (tap < D_CONV - 1))

    # h ← e^(ΔA) h + (Δ x) Bᵀ, tile by tile.
    rows_per_group: tl.constexpr = D_INNER // GROUPS
    for group in range(GROUPS):
        for first in range(0, rows_per_group, BLOCK_ROWS):
            row_of_group = first + tl.arange(0, BLOCK_ROWS)
            inside_row = row_of_group < rows_per_group
            row = group * rows_per_group + row_of_group
            head = row // HEAD_SIZE
            dt, decay = step_and_decay(projected + D_INNER + CHANNELS, dt_bias, A_log, head, inside_row)
            gain = dt * tl.load(activated + row, mask=inside_row, other=0.0)
            for start in range(0, D_STATE, BLOCK_COLUMNS):
                column = start + tl.arange(0, BLOCK_COLUMNS)
                inside_column = column < D_STATE
                B = tl.load(activated + D_INNER + group * D_STATE + column, mask=inside_column, other=0.0)
                place = state + (row[:, None] * D_STATE + column[None, :])
                inside = inside_row[:, None] & inside_column[None, :]
                following = (
                    decay[:, None] * tl.load(place, mask=inside, other=0.0) + gain[:, None] * B[None, :]
                )
                tl.debug_barrier()
                tl.store(place, following, mask=inside)
