# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The trail of a sequence, for the adjoint: its evaluation once more, kept, and the derivative at a token.

Rows of a trail are ``(place · length + token) · layers + layer``, those of what is linear at the tokens that
the places are at ``layer · places + place``, as in `evaluate`.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import norm_factor, sigmoid, silu_slope, zero_like
from implicit.ops.numba_shared.jit import compiled, inner, once
from implicit.ops.numba_shared.matrices import row_of, view
from implicit.ops.sequential_solve.numba_kernels.evaluate import advance, evaluate, read_windows


class Trail(NamedTuple):
    """The tokens of the sequences at the places, one layer a row; the stream has one row more than layers."""

    streams: np.ndarray
    projected: np.ndarray
    convolved: np.ndarray
    steps: np.ndarray
    decays: np.ndarray
    states: np.ndarray


class Slopes(NamedTuple):
    """Derivatives of one layer at one token, with the ``factors`` of its norms.

    ``gains`` are Δ (B · C) + D, ``of_steps`` how much Δ moves y, ``opened`` and ``gate_slopes`` how much y
    and the gate move ``gated``, the normalised output, without the mean of the norm.
    """

    normed: np.ndarray
    factors: np.ndarray
    activated: np.ndarray
    channel_slopes: np.ndarray
    step_slopes: np.ndarray
    gains: np.ndarray
    of_steps: np.ndarray
    gated: np.ndarray
    opened: np.ndarray
    gate_slopes: np.ndarray


@inner
def _copied(source, source_row, target, target_row):
    into, of = row_of(target, target_row), row_of(source, source_row)
    for i in range(len(into)):
        into[i] = of[i]


@compiled
def replay(weights, places, trail, latents, mask, injections, windows, states, sequence, token, count):
    """Walk over the sequences of the places once more, at their fixed points; keep what is read of them."""
    length, features, layers = latents.shape[1], latents.shape[2], weights.skips.shape[0]
    inner, channels, newest = places.gated.shape[1], places.past.shape[1], weights.taps.shape[1] - 1
    size, width = len(sequence), states.shape[2]
    for t in range(length):
        for place in range(count):
            token[place] = t
            latent, z = row_of(places.streams, place), row_of(latents, sequence[place] * length + t)
            for i in range(features):
                latent[i] = z[i]
            read_windows(weights, places, windows, layers, size, place, sequence[place])
        evaluate(weights, places, injections, states, sequence, token, count)
        for place in range(count):
            b = sequence[place]
            if not mask[b, t]:
                continue
            for layer in range(layers + 1):
                at = (place * length + t) * (layers + 1) + layer
                _copied(places.streams, layer * size + place, trail.streams, at)
            for layer in range(layers):
                at, row = (place * length + t) * layers + layer, layer * size + place
                _copied(places.projected, row, trail.projected, at)
                _copied(places.steps, row, trail.steps, at)
                _copied(places.decays, row, trail.decays, at)
                convolved, past = row_of(trail.convolved, at), row_of(places.past, row)
                channel = view(places.projected, row * places.projected.shape[1] + inner, channels)
                tap = row_of(weights.taps, layer * (newest + 1) + newest)
                for i in range(channels):
                    convolved[i] = past[i] + channel[i] * tap[i]
                for s in range(width):
                    _copied(states, (b * layers + layer) * width + s, trail.states, at * width + s)
            advance(weights, places, windows, states, layers, size, place, b)


@once
def linearise(weights, trail, slopes, length, size, place, t):
    """Differentiate Φ and G at a token of the sequence at a place."""
    layers, features = weights.skips.shape[0], len(weights.latent_norm)
    for layer in range(layers + 1):
        stream = row_of(trail.streams, (place * length + t) * (layers + 1) + layer)
        normed = row_of(slopes.normed, layer * size + place)
        squares = zero_like(stream)
        for i in range(features):
            squares += stream[i] * stream[i]
        factor = norm_factor(squares, features, weights.epsilon)
        slopes.factors[layer * size + place, 0] = factor
        for i in range(features):
            normed[i] = stream[i] * factor
        if layer < layers:
            _linearise_scan(
                weights, trail, slopes, layer, (place * length + t) * layers + layer, layer * size + place
            )


@once
def _linearise_scan(weights, trail, slopes, layer, at, row):
    inner, heads, size = slopes.gated.shape[1], weights.skips.shape[1], trail.states.shape[1]
    channels, groups = trail.convolved.shape[1], weights.groups
    per_group, heads_of_group, head_size = inner // groups, heads // groups, inner // heads
    # Channels: the activation c = silu(q) and its slope; Δ = softplus(raw) has the slope σ(raw).
    convolved = row_of(trail.convolved, at)
    activated, slope = row_of(slopes.activated, row), row_of(slopes.channel_slopes, row)
    for i in range(channels):
        activated[i] = convolved[i] * sigmoid(convolved[i])
        slope[i] = silu_slope(convolved[i])
    projected = at * trail.projected.shape[1]
    for head in range(heads):
        raw = trail.projected[at, inner + channels + head] + weights.dt_bias[layer, head]
        slopes.step_slopes[row, head] = sigmoid(raw)
    for group in range(groups):
        begin = group * per_group
        B = view(slopes.activated, row * channels + inner + group * size, size)
        C = view(slopes.activated, row * channels + inner + (groups + group) * size, size)
        overlap = zero_like(B)
        for s in range(size):
            overlap += B[s] * C[s]
        read = view(slopes.of_steps, row * inner + begin, per_group)
        # h C, as the adjoint of Δ needs it before the decay: with it y = e^(ΔA) h C + (Δ (B · C) + D) x.
        for i in range(per_group):
            read[i] = 0
        for s in range(size):
            c, h = C[s], view(trail.states, (at * size + s) * inner + begin, per_group)
            for i in range(per_group):
                read[i] += h[i] * c
        squares = zero_like(B)
        # ∂y/∂Δ = A e^(ΔA) h C + (B · C) x, and q = y silu(gate).
        for head in range(group * heads_of_group, (group + 1) * heads_of_group):
            first = row * inner + head * head_size
            decay, rate = trail.decays[at, head], weights.rates[layer, head]
            gain = trail.steps[at, head] * overlap + weights.skips[layer, head]
            slopes.gains[row, head] = gain
            of_step, q = view(slopes.of_steps, first, head_size), view(slopes.gated, first, head_size)
            opened = view(slopes.opened, first, head_size)
            gate_slope = view(slopes.gate_slopes, first, head_size)
            x = view(slopes.activated, row * channels + head * head_size, head_size)
            gate = view(trail.projected, projected + head * head_size, head_size)
            for i in range(head_size):
                carried = decay * of_step[i]
                y = carried + gain * x[i]
                of_step[i] = rate * carried + overlap * x[i]
                opened[i] = gate[i] * sigmoid(gate[i])
                gate_slope[i] = y * silu_slope(gate[i])
                q[i] = y * opened[i]
                squares += q[i] * q[i]
        # n = r q, and the slopes r silu(gate) of y and r y silu'(gate) of the gate.
        factor = norm_factor(squares, per_group, weights.epsilon)
        n = view(slopes.gated, row * inner + begin, per_group)
        opened = view(slopes.opened, row * inner + begin, per_group)
        gate_slope = view(slopes.gate_slopes, row * inner + begin, per_group)
        for i in range(per_group):
            n[i] *= factor
            opened[i] *= factor
            gate_slope[i] *= factor
