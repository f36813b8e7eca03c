# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Φ and G of a few tokens, each of another sequence, as functions that run inside the kernel.

A place holds one token that is being iterated. Arrays of places have a row for every layer and place, row
``layer · places + place``; what has no layer has a row for every place.

| array        | row                  | content                                                              |
|--------------|----------------------|----------------------------------------------------------------------|
| `streams`    | padded d_model       | the latent, then the residual stream after each layer (one row more) |
| `normed`     | d_model              | the stream, normalised; weights of norms are in the matrices         |
| `projected`  | padded d_in_proj     | gate, channels and Δ before convolution and softplus                 |
| `past`       | channels             | what the convolution adds of earlier tokens, and its bias            |
| `activated`  | channels             | x, B and C: the channels after convolution and silu                  |
| `steps`      | heads                | Δ                                                                    |
| `decays`     | heads                | e^(ΔA)                                                               |
| `gated`      | d_inner              | the output of the scan, gated and normalised                         |
| `images`     | d_model              | Φ(z)                                                                 |

States are ``[batch, layers, d_state, d_inner]``, windows ``[batch, layers, d_conv − 1, channels]``.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import exp, norm_factor, sigmoid, softplus, zero_like
from implicit.ops.numba_shared.jit import inner, once
from implicit.ops.numba_shared.matrices import add_products, row_of, view


class Weights(NamedTuple):
    """The self-map as the kernel reads it; rates are A, taps ``[layers, d_conv, channels]``."""

    in_proj: np.ndarray
    out_proj: np.ndarray
    taps: np.ndarray
    conv_bias: np.ndarray
    dt_bias: np.ndarray
    rates: np.ndarray
    skips: np.ndarray
    latent_norm: np.ndarray
    groups: int
    residual: bool
    epsilon: np.floating


class Places(NamedTuple):
    """The values computed at the places."""

    streams: np.ndarray
    normed: np.ndarray
    projected: np.ndarray
    past: np.ndarray
    activated: np.ndarray
    steps: np.ndarray
    decays: np.ndarray
    gated: np.ndarray
    images: np.ndarray


@inner
def evaluate(weights, places, injections, states, sequence, token, count):
    """Evaluate Φ at the latents of the first ``count`` places."""
    layers, size, features = weights.skips.shape[0], len(sequence), len(weights.latent_norm)
    batch, length, width = injections.shape[1:]
    for layer in range(layers):
        first = layer * size
        for place in range(count):
            _normalise(
                row_of(places.streams, first + place), row_of(places.normed, place), features, weights.epsilon
            )
            at = (layer * batch + sequence[place]) * length + token[place]
            injected, projected = row_of(injections, at), row_of(places.projected, first + place)
            for i in range(width):
                projected[i] = injected[i]
        add_products(weights.in_proj, layer, places.normed, 0, places.projected, first, count)
        for place in range(count):
            row = first + place
            _activate(weights, places, layer, row)
            _read_state(weights, places, states, layer, row, place, sequence[place])
            above, below = row_of(places.streams, row), row_of(places.streams, row + size)
            if weights.residual:
                for i in range(features):
                    below[i] = above[i]
            else:
                for i in range(features):
                    below[i] = 0
        add_products(weights.out_proj, layer, places.gated, 0, places.streams, first + size, count)
    for place in range(count):
        image = row_of(places.images, place)
        _normalise(row_of(places.streams, layers * size + place), image, features, weights.epsilon)
        for i in range(features):
            image[i] *= weights.latent_norm[i]


@inner
def _normalise(source, target, features, epsilon):
    squares = zero_like(source)
    for i in range(features):
        squares += source[i] * source[i]
    factor = norm_factor(squares, features, epsilon)
    for i in range(features):
        target[i] = source[i] * factor


@once
def _activate(weights, places, layer, row):
    """Convolution with its activation; Δ and the decay of every head."""
    inner, heads = places.gated.shape[1], weights.skips.shape[1]
    activated, past = row_of(places.activated, row), row_of(places.past, row)
    channels, width = len(past), weights.taps.shape[1]
    newest = row_of(weights.taps, layer * width + width - 1)
    offset = row * places.projected.shape[1] + inner
    projected = view(places.projected, offset, channels)
    steps = view(places.projected, offset + channels, heads)
    for i in range(channels):
        value = past[i] + projected[i] * newest[i]
        activated[i] = value * sigmoid(value)
    for head in range(heads):
        step = softplus(steps[head] + weights.dt_bias[layer, head])
        places.steps[row, head] = step
        places.decays[row, head] = exp(step * weights.rates[layer, head])


@once
def _read_state(weights, places, states, layer, row, place, b):
    """Skip, gate and norm of y = e^(ΔA) h C + Δ (B · C) x: only z* makes a new state."""
    inner, heads, size = places.gated.shape[1], weights.skips.shape[1], states.shape[2]
    per_group, heads_of_group, head_size = inner // weights.groups, heads // weights.groups, inner // heads
    state, activated = (b * states.shape[1] + layer) * size * inner, row * places.activated.shape[1]
    for group in range(weights.groups):
        begin = group * per_group
        B = view(places.activated, activated + inner + group * size, size)
        C = view(places.activated, activated + inner + (weights.groups + group) * size, size)
        # B · C, by which Δ x is multiplied: Δ x Bᵀ C = Δ (B · C) x.
        overlap = zero_like(B)
        for s in range(size):
            overlap += B[s] * C[s]
        # h C, four columns of the state at a time.
        y = view(places.gated, place * inner + begin, per_group)
        for i in range(per_group):
            y[i] = 0
        whole = size - size % 4
        for s in range(0, whole, 4):
            c0, c1, c2, c3 = C[s], C[s + 1], C[s + 2], C[s + 3]
            h0 = view(states, state + s * inner + begin, per_group)
            h1 = view(states, state + (s + 1) * inner + begin, per_group)
            h2 = view(states, state + (s + 2) * inner + begin, per_group)
            h3 = view(states, state + (s + 3) * inner + begin, per_group)
            for i in range(per_group):
                y[i] += h0[i] * c0 + h1[i] * c1 + h2[i] * c2 + h3[i] * c3
        for s in range(whole, size):
            c0, h0 = C[s], view(states, state + s * inner + begin, per_group)
            for i in range(per_group):
                y[i] += h0[i] * c0
        # q = (e^(ΔA) h C + (Δ (B · C) + D) x) silu(gate), head by head.
        squares = zero_like(y)
        for head in range(group * heads_of_group, (group + 1) * heads_of_group):
            decay = places.decays[row, head]
            gain = places.steps[row, head] * overlap + weights.skips[layer, head]
            read = view(places.gated, place * inner + head * head_size, head_size)
            gate = view(places.projected, row * places.projected.shape[1] + head * head_size, head_size)
            x = view(places.activated, activated + head * head_size, head_size)
            for i in range(head_size):
                q = (decay * read[i] + gain * x[i]) * (gate[i] * sigmoid(gate[i]))
                read[i] = q
                squares += q * q
        # n = q / √(mean q² + ε) over the group.
        factor = norm_factor(squares, per_group, weights.epsilon)
        for i in range(per_group):
            y[i] *= factor


@inner
def read_windows(weights, places, windows, layers, size, place, b):
    """Sum up what the convolutions add to this token of those before it."""
    older = windows.shape[2]
    for layer in range(layers):
        past, bias = row_of(places.past, layer * size + place), row_of(weights.conv_bias, layer)
        for i in range(len(past)):
            past[i] = bias[i]
        for k in range(older):
            window = row_of(windows, (b * layers + layer) * older + k)
            taps = row_of(weights.taps, layer * (older + 1) + k)
            for i in range(len(past)):
                past[i] += window[i] * taps[i]


@inner
def advance(weights, places, windows, states, layers, size, place, b):
    """Replace windows and states by those after the token, from what the last evaluation left."""
    inner, heads, width = places.gated.shape[1], weights.skips.shape[1], states.shape[2]
    head_size, heads_of_group = inner // heads, heads // weights.groups
    older, channels = windows.shape[2], windows.shape[3]
    for layer in range(layers):
        row = layer * size + place
        window = (b * layers + layer) * older
        for k in range(older - 1):
            into, of = row_of(windows, window + k), row_of(windows, window + k + 1)
            for i in range(channels):
                into[i] = of[i]
        if older > 0:
            into = row_of(windows, window + older - 1)
            of = view(places.projected, row * places.projected.shape[1] + inner, channels)
            for i in range(channels):
                into[i] = of[i]
        state, activated = (b * layers + layer) * width * inner, row * channels
        for head in range(heads):
            B = view(places.activated, activated + inner + head // heads_of_group * width, width)
            x = view(places.activated, activated + head * head_size, head_size)
            decay, step = places.decays[row, head], places.steps[row, head]
            for s in range(width):
                gain = step * B[s]
                h = view(states, state + s * inner + head * head_size, head_size)
                for i in range(head_size):
                    h[i] = decay * h[i] + gain * x[i]
