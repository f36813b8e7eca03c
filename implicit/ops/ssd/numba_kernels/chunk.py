# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""One head over one chunk of tokens: products of matrices that lie in the cache of a core.

With u = Δ x, a_t = exp(Δ_t A), the state S before the chunk and the one S' after it,

    y_i = Σ_{j ≤ i} M_ij u_j + α_i S C_i        M_ij = L_ij (C_i · B_j)     L_ij = a_{j+1} … a_i
    S'  = Σ_j v_j B_jᵀ + α S                    v_j = β_j u_j               α_i = a_1 … a_i, β_j = a_{j+1} … a

where α is the product of all decays. Every L_ij is a product of decays, never a quotient: after a token that
resets the state nothing is left of what was before, and no digit of what follows is lost.

Matrices are filled up with zeros (`implicit.ops.numba_shared.matrices`); decays of absent tokens are 1. All
stand in one array: numba takes long to compile functions of many.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import exp, one_like, zero_like
from implicit.ops.numba_shared.jit import inner
from implicit.ops.numba_shared.matrices import (
    Matrix,
    add_triangular,
    clear_rows,
    copy_rows,
    multiply,
    scale_rows,
    transpose,
)
from implicit.ops.numba_shared.views import view

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


@inner
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


@inner
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


@inner
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
