# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The mixer and its gradients: all of a run of tokens while they lie in the cache, then the next."""

from implicit.ops.mamba2_mixer.numba_kernels.around_scan import (
    begin_back,
    convolve,
    convolve_back,
    normalise,
    normalise_back,
)
from implicit.ops.numba_shared.jit import compiled, inner, once
from implicit.ops.ssd.numba_kernels.chunk import Part
from implicit.ops.ssd.numba_kernels.sequence import (
    Gradients,
    Inputs,
    advance,
    copy_states,
    give_states,
    scan,
    scan_back,
    take_states,
)

RUN = 64
"""Tokens of a run."""

# A literal has a type of its own, for which what it is given to is compiled anew: bool() and min() give none.


@compiled
def mix_forward(inputs, states, after, out, room, work, held, first, last):
    """Mix the sequences ``first`` … ``last − 1``; flat ``states`` are before them, ``after`` those after."""
    heads, size, width = len(inputs.A), inputs.size, inputs.width
    y = Part(room.memory, room.y, heads * size)
    for b in range(first, last):
        own = b * heads * size * width
        take_states(states, own, held, work, heads, size, width)
        for start in range(0, inputs.length, RUN):
            count = min(RUN, inputs.length - start)
            convolve(inputs, room, b, start, count, bool(0))
            scan(_sequence(inputs, room, b, start, count), y, work, held, bool(0))
            normalise(inputs, room, out, b, start, count)
        give_states(after, own, held, work, heads, size, width)


@compiled
def mix_backward(
    inputs, states, outputs_dot, states_dot, found, room, work, back, held, of_run, held_dot, first, last
):
    """Compute the gradients of the sequences ``first`` … ``last − 1``.

    ``states`` hold the states before them; ``states_dot`` the gradient of those after, then of those before.
    Forwards only the states before every run are found, ``held``; all else is computed from the last run to
    the first, while it lies in the cache. ``of_run`` has room for the states before the chunks of a run.
    """
    heads, size, width, length = len(inputs.A), inputs.size, inputs.width, inputs.length
    y, runs = Part(room.memory, room.y, heads * size), -(-length // RUN)
    for b in range(first, last):
        own = b * heads * size * width
        # Forwards: h before every run, by h' = e^(ΔA) h + Δ x Bᵀ.
        take_states(states, own, held, work, heads, size, width)
        for run in range(runs - 1):
            count = min(RUN, length - run * RUN)
            copy_states(held, run * heads, held, (run + 1) * heads, heads, work)
            convolve(inputs, room, b, run * RUN, count, bool(0))
            advance(_sequence(inputs, room, b, run * RUN, count), work, held, (run + 1) * heads)
        # The adjoint of the state after the last token, carried from run to run.
        take_states(states_dot, own, held_dot, work, heads, size, width)
        begin_back(inputs, room, length - (runs - 1) * RUN)
        for run in range(runs - 1, -1, -1):
            start = run * RUN
            count = min(RUN, length - start)
            # Backwards: convolution and scan of the run again, then norm, scan and convolution transposed.
            convolve(inputs, room, b, start, count, bool(1))
            copy_states(held, run * heads, of_run, 0, heads, work)
            sequence = _sequence(inputs, room, b, start, count)
            scan(sequence, y, work, of_run, bool(1))
            normalise_back(inputs, room, outputs_dot, found, b, start, count)
            gradients = _gradients(inputs, room, found, b, start)
            scan_back(sequence, y, gradients, work, back, of_run, held_dot)
            convolve_back(inputs, room, found, b, start, count)
        give_states(states_dot, own, held_dot, work, heads, size, width)


@once
def _gradients(inputs, room, found, b, start):
    """The places where the scan writes gradients of tokens from ``start`` on."""
    channels, features, heads = len(inputs.bias), len(inputs.weight), len(inputs.A)
    shared, token = inputs.groups * inputs.width, b * inputs.length + start
    return Gradients(
        Part(room.memory, room.channels_dot, channels),
        Part(found.dt, token * heads, heads),
        Part(room.memory, room.channels_dot + features, channels),
        Part(room.memory, room.channels_dot + features + shared, channels),
        Part(found.rates, token * heads, heads),
    )


@inner
def _sequence(inputs, room, b, start, count):
    """Return ``count`` tokens from ``start`` on, to be scanned; their channels stand in the memory."""
    channels, features, heads = len(inputs.bias), len(inputs.weight), len(inputs.A)
    return Inputs(
        Part(room.memory, room.channels, channels),
        Part(inputs.dt, (b * inputs.length + start) * heads, heads),
        inputs.A,
        Part(room.memory, room.channels + features, channels),
        Part(room.memory, room.channels + features + inputs.groups * inputs.width, channels),
        count,
        inputs.groups,
        inputs.size,
        inputs.width,
    )
