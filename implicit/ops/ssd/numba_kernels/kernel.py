# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The scan and its gradients, one head of one sequence after the other, each in memory of its own.

With u = Δ x, a = exp(Δ A), the state h and dots for gradients:

    h_t = a_t h_{t−1} + u_t B_tᵀ        y_t = h_t C_t
    ḣ_t = ẏ_t C_tᵀ + a_{t+1} ḣ_{t+1}
    u̇_t = ḣ_t B_t    Ḃ_t = ḣ_tᵀ u_t    Ċ_t = h_tᵀ ẏ_t    ȧ_t = ḣ_t · h_{t−1}

Every one of the sums is a recurrence of `tiles`: that of Ċ runs forwards with B as its vector and u as its
rows, those of u̇ and Ḃ backwards.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import exp, zero_like
from implicit.ops.numba_shared.jit import compiled
from implicit.ops.numba_shared.views import address
from implicit.ops.ssd.numba_kernels.tiles import ROWS, run_tile, run_tile_keeping, run_tile_meeting


class Inputs(NamedTuple):
    """The arguments of `ssd` but the state, all of one type and contiguous."""

    x: np.ndarray
    dt: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray


class Work(NamedTuple):
    """Of one head, filled up with zeros: per token ``decays`` (one more), u, y, B, C; the state both ways."""

    decays: np.ndarray
    u: np.ndarray
    y: np.ndarray
    B: np.ndarray
    C: np.ndarray
    state: np.ndarray
    transposed: np.ndarray


class Backward(NamedTuple):
    """Of one head: gradients of u, B, C and the state both ways, memory of a tile, what ȧ is the sum of."""

    u: np.ndarray
    B: np.ndarray
    C: np.ndarray
    kept: np.ndarray
    met: np.ndarray
    state: np.ndarray
    transposed: np.ndarray
    unused: np.ndarray


@compiled
def forward(inputs, states, y, work, lanes, first, last):
    """Scan the sequences ``first`` … ``last − 1``; ``states`` hold the state before and then after them."""
    length, heads, size = inputs.x.shape[1:]
    groups, width = inputs.B.shape[2:]
    for b in range(first, last):
        for head in range(heads):
            if head % (heads // groups) == 0:
                _take_group(inputs, work, b, head * groups // heads)
            _take_head(inputs, work, b, head)
            for i in range(size):
                for n in range(width):
                    work.state[n, i] = states[b, head, i, n]
            _clear(work.y)
            _scan(True, work.decays, 0, work.u, work.B, work.C, work.y, work.state, lanes)
            for t in range(length):
                for i in range(size):
                    y[b, t, head, i] = work.y[t, i]
            for i in range(size):
                for n in range(width):
                    states[b, head, i, n] = work.state[n, i]


@compiled
def _clear(array):
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[i, j] = 0


@compiled
def _take_group(inputs, work, b, group):
    for t in range(inputs.B.shape[1]):
        for n in range(inputs.B.shape[3]):
            work.B[t, n] = inputs.B[b, t, group, n]
            work.C[t, n] = inputs.C[b, t, group, n]


@compiled
def _take_head(inputs, work, b, head):
    for t in range(inputs.x.shape[1]):
        dt = inputs.dt[b, t, head]
        work.decays[t] = exp(dt * inputs.A[head])
        for i in range(inputs.x.shape[3]):
            work.u[t, i] = dt * inputs.x[b, t, head, i]


@compiled
def _scan(forwards, decays, shift, vectors, inside, outside, out, state, lanes):
    """Add to ``out`` what all parts of the state contribute; the state is ``[rows, columns of vectors]``."""
    tokens, columns = vectors.shape
    rows = inside.shape[1]
    for row in range(0, rows, ROWS):
        for column in range(0, columns, lanes):
            run_tile(
                tokens,
                forwards,
                address(decays, shift),
                address(vectors, column),
                columns,
                address(inside, row),
                address(outside, row),
                rows,
                address(out, column),
                address(state, row * columns + column),
                columns,
                address(decays, 0),
                address(decays, 0),
            )


@compiled
def backward(inputs, states, y_dot, states_dot, found, work, back, lanes, first, last):
    """Compute the gradients of the sequences ``first`` … ``last − 1``; a ȧ of all tokens goes into ``rates``.

    ``states`` hold the states before them; ``states_dot`` the gradient of those after, then of those before.
    """
    x_dot, dt_dot, rates, B_dot, C_dot = found
    length, heads, size = inputs.x.shape[1:]
    groups, width = inputs.B.shape[2:]
    of_group = heads // groups
    for b in range(first, last):
        for head in range(heads):
            group = head // of_group
            if head % of_group == 0:
                _take_group(inputs, work, b, group)
                _clear(back.B)
                _clear(back.C)
            _take_head(inputs, work, b, head)
            work.decays[length] = 1  # of ḣ behind the last token
            for t in range(length):
                for i in range(size):
                    work.y[t, i] = y_dot[b, t, head, i]
            _clear(back.u)
            _clear(back.met)
            for i in range(size):
                for n in range(width):
                    work.state[n, i] = states[b, head, i, n]
                    back.state[n, i] = states_dot[b, head, i, n]
            _meet(work, back, lanes)
            # The same two states with channels as rows: B and C are the vectors.
            for i in range(size):
                for n in range(width):
                    work.transposed[i, n] = states[b, head, i, n]
                    back.transposed[i, n] = states_dot[b, head, i, n]
            _scan(True, work.decays, 0, work.B, work.u, work.y, back.C, work.transposed, lanes)
            _scan(False, work.decays, 1, work.C, work.y, work.u, back.B, back.transposed, lanes)
            for t in range(length):
                dt, along, total = inputs.dt[b, t, head], zero_like(work.u), zero_like(work.u)
                for i in range(size):
                    x_dot[b, t, head, i] = dt * back.u[t, i]
                    along += inputs.x[b, t, head, i] * back.u[t, i]
                for i in range(lanes):
                    total += back.met[t, i]
                total *= work.decays[t]
                rates[b, t, head] = total
                dt_dot[b, t, head] = along + total * inputs.A[head]
            for i in range(size):
                for n in range(width):
                    states_dot[b, head, i, n] = work.decays[0] * back.state[n, i]
            if head % of_group == of_group - 1:
                for t in range(length):
                    for n in range(width):
                        B_dot[b, t, group, n] = back.B[t, n]
                        C_dot[b, t, group, n] = back.C[t, n]


@compiled
def _meet(work, back, lanes):
    """u̇, and per token what ȧ is the sum of: every part forwards, kept, then backwards, where it is met."""
    tokens, columns = work.u.shape
    rows = work.B.shape[1]
    for row in range(0, rows, ROWS):
        for column in range(0, columns, lanes):
            run_tile_keeping(
                tokens,
                True,
                address(work.decays, 0),
                address(work.u, column),
                columns,
                address(work.B, row),
                address(work.C, row),
                rows,
                address(back.unused, column),
                address(work.state, row * columns + column),
                columns,
                address(back.kept, 0),
                address(back.met, 0),
            )
            run_tile_meeting(
                tokens,
                False,
                address(work.decays, 1),
                address(work.y, column),
                columns,
                address(work.C, row),
                address(work.B, row),
                rows,
                address(back.u, column),
                address(back.state, row * columns + column),
                columns,
                address(back.kept, 0),
                address(back.met, 0),
            )
