# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The scan of one sequence and its gradients: a chunk of tokens after the other, each head by itself.

States of all heads are held in one array, [n, p], one behind the other; the gradients need those before every
chunk.
"""

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from implicit.ops.numba_shared.functions import zero_like
from implicit.ops.numba_shared.jit import compiled, inner, once
from implicit.ops.numba_shared.launch import Strided
from implicit.ops.numba_shared.matrices import TILE_ROWS, Matrix, clear_rows, copy_rows, transpose, view
from implicit.ops.ssd.numba_kernels.chunk import (
    Part,
    advance_state,
    backward_head,
    begin_group,
    end_group,
    forward_head,
    state_of,
    take_group,
    take_head,
)

P = TypeVar("P", Part, Strided)
"""An array of one sequence, or of a batch of them."""


class Inputs(NamedTuple, Generic[P]):
    """The arguments of `ssd` but the state; ``size`` and ``width`` are those of a state."""

    x: P
    dt: P
    A: np.ndarray
    B: P
    C: P
    length: int
    groups: int
    size: int
    width: int


class Gradients(NamedTuple, Generic[P]):
    """The gradients of x, Δ, B, C and the logarithm of every decay, to be written."""

    x: P
    dt: P
    B: P
    C: P
    rates: P


@once
def scan(sequence, y, work, held, keep):
    """Write the outputs; the states that are held become those after the sequence.

    With ``keep``, those before every chunk stay where they are, and the next ones are held behind them.
    """
    tokens, heads, size = work.tokens, len(sequence.A), sequence.size
    for start in range(0, sequence.length, tokens):
        count = min(tokens, sequence.length - start)
        rows = -(-count // TILE_ROWS) * TILE_ROWS
        for head in range(heads):
            number = head
            if keep:
                number = _repeat_state(work, held, start // tokens * heads + head, heads)
            _take(sequence, work, start, head, count)
            out = Matrix(y.flat, y.first + start * y.step + head * size, y.step)
            if count == rows and size == work.size:
                forward_head(work, held, number, rows, out)
            else:  # tiles would overlap what stands beside them
                filled = Matrix(work.memory, work.y, work.size)
                forward_head(work, held, number, rows, filled)
                copy_rows(count, size, filled, out)


@once
def advance(sequence, work, held, first):
    """Replace the states of all heads, held from number ``first`` on, by those after the sequence."""
    for start in range(0, sequence.length, work.tokens):
        count = min(work.tokens, sequence.length - start)
        for head in range(len(sequence.A)):
            _take(sequence, work, start, head, count)
            advance_state(work, held, first + head, -(-count // TILE_ROWS) * TILE_ROWS)


@once
def states_before_chunks(sequence, work, held):
    """Find the states before all chunks but the first, before which they are held."""
    tokens, heads = work.tokens, len(sequence.A)
    for start in range(0, sequence.length - tokens, tokens):
        for head in range(heads):
            number = _repeat_state(work, held, start // tokens * heads + head, heads)
            _take(sequence, work, start, head, tokens)
            advance_state(work, held, number, tokens)


@inner
def copy_states(held, first, out, out_first, count, work):
    """Copy so many states, from number ``first`` to number ``out_first``."""
    for state in range(count):
        copy_rows(
            work.width, work.size, state_of(work, held, first + state), state_of(work, out, out_first + state)
        )


@inner
def _repeat_state(work, held, number, heads):
    """Copy a state to the place of the one after the chunk; return its number."""
    copy_states(held, number, held, number + heads, 1, work)
    return number + heads


@once
def scan_back(sequence, y_dot, found, work, back, held, held_dot):
    """Write the gradients, from the states before every chunk; ``held_dot`` is Ṡ' and becomes Ṡ."""
    tokens, heads, size, width = work.tokens, len(sequence.A), sequence.size, sequence.width
    of_group = heads // sequence.groups
    for chunk in range(-(-sequence.length // tokens) - 1, -1, -1):
        start = chunk * tokens
        count = min(tokens, sequence.length - start)
        rows = -(-count // TILE_ROWS) * TILE_ROWS
        for head in range(heads):
            if head % of_group == 0:
                begin_group(work, back)
            _take(sequence, work, start, head, count)
            given = Matrix(y_dot.flat, y_dot.first + start * y_dot.step + head * size, y_dot.step)
            copy_rows(count, size, given, Matrix(work.memory, back.y, work.size))
            clear_rows(count, tokens, size, Matrix(work.memory, back.y, work.size))
            backward_head(work, back, held, chunk * heads + head, held_dot, head, rows)
            _give_head(sequence, found, work, back, start, head, count)
            if head % of_group == of_group - 1:
                end_group(work, back, rows)
                for sums, part in ((back.B, found.B), (back.C, found.C)):
                    first = part.first + start * part.step + head // of_group * width
                    copy_rows(
                        count,
                        width,
                        Matrix(work.memory, sums, work.width),
                        Matrix(part.flat, first, part.step),
                    )


@inner
def _take(sequence, work, start, head, count):
    of_group = len(sequence.A) // sequence.groups
    if head % of_group == 0:
        take_group(work, sequence.B, sequence.C, start, head // of_group, count, sequence.width)
    take_head(work, sequence.x, sequence.dt, sequence.A[head], start, head, count, sequence.size)


@once
def _give_head(sequence, found, work, back, start, head, count):
    """ẋ = Δ u̇ and the gradient of Δ, by u and by the decay."""
    x, dt, size, rates = sequence.x, sequence.dt, sequence.size, view(work.memory, back.rates, work.tokens)
    for t in range(count):
        token, along = start + t, zero_like(work.memory)
        length = dt.flat[dt.first + token * dt.step + head]
        u_dot = view(work.memory, back.u + t * work.size, size)
        given = view(x.flat, x.first + token * x.step + head * size, size)
        out = view(found.x.flat, found.x.first + token * found.x.step + head * size, size)
        for i in range(size):
            along += given[i] * u_dot[i]
            out[i] = length * u_dot[i]
        found.rates.flat[found.rates.first + token * found.rates.step + head] = rates[t]
        found.dt.flat[found.dt.first + token * found.dt.step + head] = along + rates[t] * sequence.A[head]


@inner
def take_states(states, first, held, work, heads, size, width):
    """Hold the states of a sequence, [heads, p, n] from entry ``first`` of a flat array on."""
    room = Matrix(work.memory, work.state, work.width)
    clear_rows(0, work.size, work.width, room)
    for head in range(heads):
        copy_rows(size, width, Matrix(states, first + head * size * width, width), room)
        transpose(work.size, work.width, room, state_of(work, held, head))


@inner
def give_states(states, first, held, work, heads, size, width):
    """Write the states of a sequence back where `take_states` took them."""
    room = Matrix(work.memory, work.state, work.width)
    for head in range(heads):
        transpose(work.width, work.size, state_of(work, held, head), room)
        copy_rows(size, width, room, Matrix(states, first + head * size * width, width))


@compiled
def forward(inputs, states, y, work, held, first, last):
    """Scan the sequences ``first`` … ``last − 1``; flat ``states`` are before and then after them."""
    heads, size, width = len(inputs.A), inputs.size, inputs.width
    of_sequence = heads * size * width
    for b in range(first, last):
        take_states(states, b * of_sequence, held, work, heads, size, width)
        scan(_sequence(inputs, b), _part(y, b), work, held, bool(0))  # a literal has a type of its own
        give_states(states, b * of_sequence, held, work, heads, size, width)


@compiled
def backward(inputs, states, y_dot, states_dot, found, work, back, held, held_dot, first, last):
    """Compute the gradients of the sequences ``first`` … ``last − 1``.

    ``states`` hold the states before them; ``states_dot`` the gradient of those after, then of those before.
    """
    heads, size, width = len(inputs.A), inputs.size, inputs.width
    of_sequence = heads * size * width
    for b in range(first, last):
        sequence = _sequence(inputs, b)
        gradients = Gradients(
            _part(found.x, b), _part(found.dt, b), _part(found.B, b), _part(found.C, b), _part(found.rates, b)
        )
        take_states(states, b * of_sequence, held, work, heads, size, width)
        states_before_chunks(sequence, work, held)
        take_states(states_dot, b * of_sequence, held_dot, work, heads, size, width)
        scan_back(sequence, _part(y_dot, b), gradients, work, back, held, held_dot)
        give_states(states_dot, b * of_sequence, held_dot, work, heads, size, width)


@inner
def _sequence(inputs, b):
    return Inputs(
        _part(inputs.x, b),
        _part(inputs.dt, b),
        inputs.A,
        _part(inputs.B, b),
        _part(inputs.C, b),
        inputs.length,
        inputs.groups,
        inputs.size,
        inputs.width,
    )


@inner
def _part(strided, b):
    return Part(strided.flat, b * strided.sequence, strided.token)
