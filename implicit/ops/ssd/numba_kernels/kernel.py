# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The scan and its gradients over the sequences of a batch."""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.jit import compiled, inner
from implicit.ops.numba_shared.launch import Strided
from implicit.ops.ssd.numba_kernels.chunk import Part
from implicit.ops.ssd.numba_kernels.sequence import (
    Found,
    Sequence,
    give_states,
    scan,
    scan_back,
    states_before_chunks,
    take_states,
)


class Inputs(NamedTuple):
    """The arguments of `ssd` but the state, all of one type, and the sizes that flat arrays do not tell."""

    x: Strided
    dt: Strided
    A: np.ndarray
    B: Strided
    C: Strided
    length: int
    groups: int
    size: int
    width: int


class Gradients(NamedTuple):
    """The gradients of x, Δ, B, C and the logarithm of every decay."""

    x: Strided
    dt: Strided
    B: Strided
    C: Strided
    rates: Strided


@compiled
def forward(inputs, states, y, work, held, first, last):
    """Scan the sequences ``first`` … ``last − 1``; flat ``states`` are before and then after them."""
    heads, size, width = len(inputs.A), inputs.size, inputs.width
    of_sequence = heads * size * width
    for b in range(first, last):
        take_states(states, b * of_sequence, held, work, heads, size, width)
        scan(_sequence(inputs, b), _part(y, b), work, held, False)
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
        gradients = Found(
            _part(found.x, b), _part(found.dt, b), _part(found.B, b), _part(found.C, b), _part(found.rates, b)
        )
        take_states(states, b * of_sequence, held, work, heads, size, width)
        states_before_chunks(sequence, work, held)
        take_states(states_dot, b * of_sequence, held_dot, work, heads, size, width)
        scan_back(sequence, _part(y_dot, b), gradients, work, back, held, held_dot)
        give_states(states_dot, b * of_sequence, held_dot, work, heads, size, width)


@inner
def _sequence(inputs, b):
    return Sequence(
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
