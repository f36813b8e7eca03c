# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""One head over one chunk of tokens: products of matrices that lie in the cache of a core.

With u = Δ x, a_t = exp(Δ_t A), the state S before the chunk and the one S' after it,

    y_i = Σ_{j ≤ i} M_ij u_j + α_i S C_i        M_ij = L_ij (C_i · B_j)     L_ij = a_{j+1} … a_i
    S'  = Σ_j v_j B_jᵀ + α S                    v_j = β_j u_j               α_i = a_1 … a_i, β_j = a_{j+1} … a

where α is the product of all decays. Every L_ij is a product of decays, never a quotient: after a token that
resets the state nothing is left of what was before, and no digit of what follows is lost.

Matrices are filled up with zeros (`implicit.ops.numba_shared.matrices`); decays of absent tokens are 1. All
stand in one array: numba takes long to compile functions of many.

A dot marks a gradient: ẏ of the outputs, Ṡ' of the state after the chunk, Ṡ of the one before it. With
w_i = α_i ẏ_i:

    u̇_j = Σ_{i ≥ j} M_ij ẏ_i + β_j Ṡ' B_j                                                 (1)
    Ċ_i = Sᵀ w_i  + Σ_j P_ij B_j            P_ij = Σ_heads L_ij (ẏ_i · u_j), j ≤ i         (2)
    Ḃ_j = Ṡ'ᵀ v_j + Σ_i P_ij C_i                                                           (3)
    Ṡ   = Σ_i w_i C_iᵀ + α Ṡ'                                                              (4)

and the gradient of log a_s is the sum of all that is multiplied by a_s,

    Σ_{j < s ≤ i} M_ij (ẏ_i · u_j) + Σ_{i ≥ s} w_i · S C_i + Σ_{j < s} v_j · Ṡ' B_j + α Ṡ' · S    (5)

where w_i · S C_i = C_i · Sᵀ w_i and v_j · Ṡ' B_j = B_j · Ṡ'ᵀ v_j, so that (2) and (3) have them. No
difference is formed: each term vanishes with its decay.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import exp, one_like, zero_like
from implicit.ops.numba_shared.jit import inner, once
from implicit.ops.numba_shared.matrices import (
    TILE_ROWS,
    Matrix,
    add_triangular,
    clear_rows,
    copy_rows,
    multiply,
    scale_rows,
    transpose,
    view,
)

CHUNK_SIZE = 32


class Part(NamedTuple):
    """Numbers of the tokens of a sequence: the entry of a flat array where they begin, and the step."""

    flat: np.ndarray
    first: int
    step: int


class Chunk(NamedTuple):
    """The places in the memory where the parts of a chunk begin, and the sizes, of whole tiles.

    ``between`` is a row of L, ``mixing`` M, ``scores`` C_i · B_j, ``turned`` Bᵀ, ``scaled`` rows of B or C
    times α or β.
    """

    memory: np.ndarray
    tokens: int
    size: int
    width: int
    decays: int
    since: int
    until: int
    between: int
    u: int
    v: int
    y: int
    B: int
    C: int
    turned: int
    scaled: int
    scores: int
    mixing: int
    state: int


@inner
def state_of(work, held, number):
    """One state of those that are held, [n, p], one behind the other."""
    return Matrix(held, number * work.width * work.size, work.size)


@once
def take_group(work, B, C, start, group, count, width):
    """Take B and C of ``count`` tokens from ``start`` on of a group, and multiply them to the scores."""
    tokens, columns = work.tokens, group * width
    mine = Matrix(work.memory, work.B, work.width)
    copy_rows(count, width, Matrix(B.flat, B.first + start * B.step + columns, B.step), mine)
    clear_rows(count, tokens, width, mine)
    theirs = Matrix(work.memory, work.C, work.width)
    copy_rows(count, width, Matrix(C.flat, C.first + start * C.step + columns, C.step), theirs)
    clear_rows(count, tokens, width, theirs)
    turned, nothing = Matrix(work.memory, work.turned, work.tokens), zero_like(work.memory)
    transpose(tokens, work.width, mine, turned)
    multiply(
        tokens, tokens, work.width, theirs, 1, turned, nothing, Matrix(work.memory, work.scores, work.tokens)
    )


@once
def take_head(work, x, dt, A, start, head, count, size):
    """Take u and the decays of ``count`` tokens from ``start`` on of a head, and multiply the decays up."""
    tokens = work.tokens
    decays = view(work.memory, work.decays, work.tokens)
    since = view(work.memory, work.since, work.tokens)
    until = view(work.memory, work.until, work.tokens)
    for t in range(tokens):
        decays[t] = 1
    lengths = view(work.memory, work.until, work.tokens)
    for t in range(count):
        length = dt.flat[dt.first + (start + t) * dt.step + head]
        lengths[t] = length
        decays[t] = exp(length * A)
    u = Matrix(work.memory, work.u, work.size)
    given = Matrix(x.flat, x.first + start * x.step + head * size, x.step)
    scale_rows(count, size, given, lengths, u)
    clear_rows(count, tokens, size, u)
    product = one_like(work.memory)
    for t in range(tokens):
        product *= decays[t]
        since[t] = product
    product = one_like(work.memory)
    for t in range(tokens - 1, -1, -1):
        until[t] = product
        product *= decays[t]


@inner
def forward_head(work, held, number, rows, y):
    """Outputs of ``rows`` tokens of a head into y; a state that is held becomes the one after them."""
    size, width = work.size, work.width
    nothing = zero_like(work.memory)
    mix(work, rows)
    scaled, state = Matrix(work.memory, work.scaled, width), state_of(work, held, number)
    C, u = Matrix(work.memory, work.C, width), Matrix(work.memory, work.u, size)
    scale_rows(rows, width, C, view(work.memory, work.since, work.tokens), scaled)
    multiply(rows, size, width, scaled, 1, state, nothing, y)
    add_triangular(rows, size, Matrix(work.memory, work.mixing, work.tokens), u, y)
    advance_state(work, held, number, rows)


@inner
def advance_state(work, held, number, rows):
    """Replace a state that is held by the one after the chunk."""
    v, turned_B = Matrix(work.memory, work.v, work.size), Matrix(work.memory, work.B, 1)
    scale_rows(
        rows, work.size, Matrix(work.memory, work.u, work.size), view(work.memory, work.until, work.tokens), v
    )
    through, state = work.memory[work.since + rows - 1], state_of(work, held, number)
    if through == 0:  # which `multiply` would take for an order to forget infinities and NaN, too
        count = work.width * work.size
        forgotten = view(held, state.first, count)
        for i in range(count):
            forgotten[i] *= through
        through = one_like(work.memory)
    multiply(work.width, work.size, rows, turned_B, work.width, v, through, state)


@once
def mix(work, rows):
    """M from the scores: a row of L is the row before it times a decay."""
    tokens, nothing = work.tokens, zero_like(work.memory)
    decays = view(work.memory, work.decays, work.tokens)
    between = view(work.memory, work.between, work.tokens)
    for j in range(tokens):
        between[j] = 0
    for i in range(rows):
        decay = decays[i]
        scores = view(work.memory, work.scores + i * tokens, work.tokens)
        mixing = view(work.memory, work.mixing + i * tokens, work.tokens)
        for j in range(tokens):
            between[j] *= decay
        between[i] = 1
        for j in range(tokens):
            mixing[j] = scores[j] * between[j] if j <= i else nothing


class Gradient(NamedTuple):
    """The places in the memory where the gradients of a chunk begin.

    ``y`` is ẏ and ``u`` is u̇, ``u_turned`` is uᵀ, ``part`` what a head adds to ``B`` and ``C``, Ḃ and Ċ;
    ``rates`` are (5), ``outwards`` and ``inwards`` the terms w · S C and v · Ṡ' B of it; ``state`` and
    ``state_dot`` are S and Ṡ' with channels as rows; ``pairs`` are ẏ_i · u_j and then what (5) adds up,
    ``below`` the sums of their columns from some row on; ``shared`` is P.
    """

    y: int
    u: int
    w: int
    u_turned: int
    part: int
    B: int
    C: int
    rates: int
    outwards: int
    inwards: int
    below: int
    state: int
    state_dot: int
    pairs: int
    shared: int


@once
def begin_group(work, back):
    """Clear the sums over the heads of a group."""
    clear_rows(0, work.tokens, work.width, Matrix(work.memory, back.B, work.width))
    clear_rows(0, work.tokens, work.width, Matrix(work.memory, back.C, work.width))
    clear_rows(0, work.tokens, work.tokens, Matrix(work.memory, back.shared, work.tokens))


@once
def end_group(work, back, rows):
    """Add to Ḃ and Ċ what the heads share of (2) and (3)."""
    tokens, width, one = work.tokens, work.width, one_like(work.memory)
    for row in range(0, rows, TILE_ROWS):
        shared = Matrix(work.memory, back.shared + row * tokens, work.tokens)
        out = Matrix(work.memory, back.C + row * width, work.width)
        multiply(
            TILE_ROWS, width, row + TILE_ROWS, shared, 1, Matrix(work.memory, work.B, work.width), one, out
        )
        turned = Matrix(work.memory, back.shared + row * tokens + row, 1)
        C = Matrix(work.memory, work.C + row * width, work.width)
        out = Matrix(work.memory, back.B + row * width, work.width)
        multiply(TILE_ROWS, width, rows - row, turned, tokens, C, one, out)


@once
def backward_head(work, back, held, before, held_dot, number, rows):
    """u̇ and the rates of a head; Ṡ', the state ``number``, becomes Ṡ, and the sums of its group grow."""
    tokens, size, width = work.tokens, work.size, work.width
    nothing, one = zero_like(work.memory), one_like(work.memory)
    state_dot, through = state_of(work, held_dot, number), work.memory[work.since + rows - 1]
    state_turned = Matrix(work.memory, back.state, work.width)
    state_dot_turned = Matrix(work.memory, back.state_dot, work.width)
    # Sᵀ and Ṡ'ᵀ, v_j = β_j u_j and w_i = α_i ẏ_i.
    transpose(width, size, state_of(work, held, before), state_turned)
    transpose(width, size, state_dot, state_dot_turned)
    u = Matrix(work.memory, work.u, work.size)
    v = Matrix(work.memory, work.v, work.size)
    w = Matrix(work.memory, back.w, work.size)
    y_dot = Matrix(work.memory, back.y, work.size)
    scale_rows(rows, size, u, view(work.memory, work.until, work.tokens), v)
    scale_rows(rows, size, y_dot, view(work.memory, work.since, work.tokens), w)

    # ẏ_i · u_j for j ≤ i, from which P and the first sum of (5) are made.
    transpose(tokens, size, u, Matrix(work.memory, back.u_turned, work.tokens))
    for row in range(0, rows, TILE_ROWS):  # no further than the diagonal
        columns, pairs = (row + TILE_ROWS, Matrix(work.memory, back.pairs + row * tokens, work.tokens))
        own = Matrix(work.memory, back.y + row * size, work.size)
        u_turned = Matrix(work.memory, back.u_turned, work.tokens)
        multiply(TILE_ROWS, columns, size, own, 1, u_turned, nothing, pairs)
    _mix_pairs(work, back, rows)
    # Sᵀ w_i and Ṡ'ᵀ v_j, which (2), (3) and (5) share.
    part = Matrix(work.memory, back.part, work.width)
    multiply(rows, width, size, w, 1, state_turned, nothing, part)
    _add_part(work, back, work.C, back.C, back.outwards, rows)  # (2)
    multiply(rows, width, size, v, 1, state_dot_turned, nothing, part)
    _add_part(work, back, work.B, back.B, back.inwards, rows)  # (3)
    _sum_rates(work, back, rows, through * _product_of_states(work, back))  # (5)

    # β_j Ṡ' B_j, then Σ_{i ≥ j} M_ij ẏ_i from the diagonal on.
    B = Matrix(work.memory, work.B, work.width)
    C = Matrix(work.memory, work.C, 1)
    scaled = Matrix(work.memory, work.scaled, work.width)
    scale_rows(rows, width, B, view(work.memory, work.until, work.tokens), scaled)
    multiply(rows, size, width, scaled, 1, state_dot, nothing, Matrix(work.memory, back.u, work.size))
    for row in range(0, rows, TILE_ROWS):  # (1)
        turned = Matrix(work.memory, work.mixing + row * tokens + row, 1)
        given = Matrix(work.memory, back.y + row * size, work.size)
        out = Matrix(work.memory, back.u + row * size, work.size)
        multiply(TILE_ROWS, size, rows - row, turned, tokens, given, one, out)
    multiply(width, size, rows, C, width, w, through, state_dot)  # (4)


@once
def _mix_pairs(work, back, rows):
    """M; P grows; the pairs become the terms of (5), which are below the diagonal."""
    tokens, nothing = work.tokens, zero_like(work.memory)
    decays = view(work.memory, work.decays, work.tokens)
    between = view(work.memory, work.between, work.tokens)
    for j in range(tokens):
        between[j] = 0
    for i in range(rows):
        decay, place = decays[i], i * tokens
        scores = view(work.memory, work.scores + place, work.tokens)
        mixing = view(work.memory, work.mixing + place, work.tokens)
        pairs = view(work.memory, back.pairs + place, work.tokens)
        shared = view(work.memory, back.shared + place, work.tokens)
        for j in range(tokens):
            between[j] *= decay
        between[i] = 1
        for j in range(tokens):
            mixing[j] = scores[j] * between[j] if j <= i else nothing
        for j in range(tokens):
            shared[j] += pairs[j] * between[j] if j <= i else nothing
        for j in range(tokens):
            pairs[j] = mixing[j] * pairs[j] if j < i else nothing


@inner
def _add_part(work, back, other, out, products, rows):
    """Add what a head contributes, and keep the inner products of its rows with others."""
    kept = view(work.memory, products, work.tokens)
    for t in range(rows):
        total, place = zero_like(work.memory), t * work.width
        mine = view(work.memory, back.part + place, work.width)
        theirs = view(work.memory, other + place, work.width)
        added = view(work.memory, out + place, work.width)
        for n in range(work.width):
            total += mine[n] * theirs[n]
            added[n] += mine[n]
        kept[t] = total


@once
def _product_of_states(work, back):
    """Ṡ' · S."""
    count, total = work.size * work.width, zero_like(work.memory)
    state, state_dot = view(work.memory, back.state, count), view(work.memory, back.state_dot, count)
    for i in range(count):
        total += state[i] * state_dot[i]
    return total


@once
def _sum_rates(work, back, rows, through):
    """(5) of every token; ``through`` is what passes the whole chunk."""
    tokens, nothing = work.tokens, zero_like(work.memory)
    rates, below = view(work.memory, back.rates, work.tokens), view(work.memory, back.below, work.tokens)
    inwards = view(work.memory, back.inwards, work.tokens)
    outwards = view(work.memory, back.outwards, work.tokens)
    total = through
    for s in range(rows):
        rates[s] = total
        total += inwards[s]
    for j in range(tokens):
        below[j] = 0
    after = nothing
    for s in range(rows - 1, -1, -1):
        pairs, total = view(work.memory, back.pairs + s * tokens, work.tokens), nothing
        for j in range(tokens):
            below[j] += pairs[j]
        for j in range(tokens):
            total += below[j] if j < s else nothing
        after += outwards[s]
        rates[s] += total + after
