# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The mixer before and after the scan, one token of a sequence after the other.

With K taps w and a bias, the channels of token t are silu(bias + Σ_k w_k p_{t+k−K+1}), where p are the
projected channels and, before the sequence, the window. After the scan come skip connection, gate and norm,
within each group of features:

    s = y + D x        g = s silu(gate)        r = (mean(g²) + ε)^(−1/2)        o = weight r g

Gradients are marked by dots:

    ṅ = weight ȯ      ġ = r (ṅ − n mean(n ṅ))      n = r g      ṡ = silu(gate) ġ      ẋ = D ṡ      Ḋ = Σ x ṡ

and with q the convolution before the activation, c = silu(q) and q̇ = silu'(q) ċ, silu'(q) = σ + c (1 − σ),

    ṗ_s = Σ_k w_k q̇_{s−k+K−1}        ẇ_k = Σ_t q̇_t p_{t+k−K+1}
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import norm_factor, one_like, sigmoid, zero_like
from implicit.ops.numba_shared.jit import inner, once
from implicit.ops.numba_shared.launch import Strided
from implicit.ops.numba_shared.matrices import view


class Inputs(NamedTuple):
    """The inputs of the mixer, all of one type, and the sizes that flat arrays do not tell.

    ``projected`` holds gate and channels of every token; ``dt`` is Δ, 0 at padding; ``taps`` are [K,
    channels]; ``skip`` is D of every feature; ``share`` is that of a feature in its group of the norm.
    """

    projected: Strided
    dt: np.ndarray
    window: np.ndarray
    taps: np.ndarray
    bias: np.ndarray
    A: np.ndarray
    skip: np.ndarray
    weight: np.ndarray
    epsilon: float
    share: float
    length: int
    groups: int
    size: int
    width: int
    norm_groups: int


class Room(NamedTuple):
    """The places in the memory where the rows of a run of tokens begin, of channels or of features."""

    memory: np.ndarray
    tokens: int
    channels: int
    y: int
    opened: int
    channels_dot: int


@inner
def convolve(inputs, room, b, start, count, keep):
    """The channels of ``count`` tokens of sequence ``b`` from ``start`` on; with ``keep``, their sigmoids."""
    channels = len(inputs.bias)
    taps = len(inputs.taps) // channels
    for t in range(count):
        out, bias = view(room.memory, room.channels + t * channels, channels), view(inputs.bias, 0, channels)
        for c in range(channels):
            out[c] = bias[c]
        # Two taps at a time: of more arrays in one loop the compiler does not know that they are apart.
        k = 0
        while k < taps:
            source = start + t + k - (taps - 1)
            if source >= 0 and k + 1 < taps:
                _add_two(inputs, out, b, k, source)
                k += 2
            else:
                _add_one(inputs, out, b, k, source)
                k += 1
        if keep:
            opened = view(room.memory, room.opened + t * channels, channels)
            for c in range(channels):
                opened[c] = sigmoid(out[c])
            for c in range(channels):
                out[c] *= opened[c]
        else:
            for c in range(channels):
                out[c] *= sigmoid(out[c])


@once
def _add_two(inputs, out, b, k, source):
    """Add two taps of projected tokens, ``source`` and the next."""
    channels, projected = len(inputs.bias), inputs.projected
    first = b * projected.sequence + source * projected.token + len(inputs.weight)
    tap, next_tap = view(inputs.taps, k * channels, channels), view(inputs.taps, (k + 1) * channels, channels)
    given = view(projected.flat, first, channels)
    following = view(projected.flat, first + projected.token, channels)
    for c in range(channels):
        out[c] += tap[c] * given[c] + next_tap[c] * following[c]


@once
def _add_one(inputs, out, b, k, source):
    """Add one tap, of a projected token or of one of the window."""
    channels, projected, before = len(inputs.bias), inputs.projected, len(inputs.taps) // len(inputs.bias) - 1
    tap = view(inputs.taps, k * channels, channels)
    if source >= 0:
        first = b * projected.sequence + source * projected.token + len(inputs.weight)
        given = view(projected.flat, first, channels)
        for c in range(channels):
            out[c] += tap[c] * given[c]
    else:
        given = view(inputs.window, ((b + 1) * before + source) * channels, channels)
        for c in range(channels):
            out[c] += tap[c] * given[c]


@once
def normalise(inputs, room, out, b, start, count):
    """The outputs of the mixer for ``count`` tokens from ``start`` on, from those of the scan."""
    projected, features = inputs.projected, len(inputs.weight)
    of_group = features // inputs.norm_groups
    for t in range(count):
        token = start + t
        for group in range(inputs.norm_groups):
            first = group * of_group
            y = view(room.memory, room.y + t * features + first, of_group)
            x = view(room.memory, room.channels + t * len(inputs.bias) + first, of_group)
            gate = view(projected.flat, b * projected.sequence + token * projected.token + first, of_group)
            row = view(out, (b * inputs.length + token) * features + first, of_group)
            skip, weight = view(inputs.skip, first, of_group), view(inputs.weight, first, of_group)
            squares = zero_like(room.memory)
            for i in range(of_group):
                gated = (y[i] + skip[i] * x[i]) * gate[i] * sigmoid(gate[i])
                row[i] = gated
                squares += gated * gated
            factor = norm_factor(squares, of_group, inputs.epsilon)
            for i in range(of_group):
                row[i] *= factor * weight[i]


class Found(NamedTuple):
    """Gradients, those of parameters one row per sequence, to be added up; ``rates`` of the log decays."""

    projected: np.ndarray
    window: np.ndarray
    taps: np.ndarray
    bias: np.ndarray
    dt: np.ndarray
    rates: np.ndarray
    skip: np.ndarray
    weight: np.ndarray


@once
def normalise_back(inputs, room, outputs_dot, found, b, start, count):
    """Replace the outputs of the scan by their gradients; write those of the gates, from ``start`` on."""
    projected, features = inputs.projected, len(inputs.weight)
    of_group, row = features // inputs.norm_groups, features + len(inputs.bias) + len(inputs.A)
    for t in range(count):
        token = start + t
        for group in range(inputs.norm_groups):
            first = group * of_group
            y = view(room.memory, room.y + t * features + first, of_group)
            x = view(room.memory, room.channels + t * len(inputs.bias) + first, of_group)
            gate = view(projected.flat, b * projected.sequence + token * projected.token + first, of_group)
            place = b * outputs_dot.sequence + token * outputs_dot.token + first
            given = view(outputs_dot.flat, place, of_group)
            opened = view(found.projected, (b * inputs.length + token) * row + first, of_group)
            weight = view(inputs.weight, first, of_group)
            squares = _gate(y, x, view(inputs.skip, first, of_group), gate, opened)
            factor = norm_factor(squares, of_group, inputs.epsilon)
            met = _add_to_weight(
                y, gate, opened, given, weight, view(found.weight, b * features + first, of_group), factor
            )
            _gate_back(y, gate, opened, given, weight, factor, factor * factor * met * inputs.share)
            add_product(view(found.skip, b * features + first, of_group), x, y)


# Loops of few arrays each: of more the compiler does not know that they are apart, and then takes one number
# at a time.


@inner
def add_product(out, one, other):
    """Add the product of two rows, entry by entry."""
    for i in range(len(out)):
        out[i] += one[i] * other[i]


@once
def _gate(y, x, skip, gate, opened):
    """Write s in place of y, and the sigmoids of the gate; return the sum of all g²."""
    squares = zero_like(y)
    for i in range(len(y)):
        value, share = y[i] + skip[i] * x[i], sigmoid(gate[i])
        gated = value * gate[i] * share
        y[i], opened[i] = value, share
        squares += gated * gated
    return squares


@once
def _add_to_weight(value, gate, opened, given, weight, weight_dot, factor):
    """Add n ȯ to the gradient of the weight; return the sum of all g weight ȯ."""
    met = zero_like(value)
    for i in range(len(value)):
        product = value[i] * gate[i] * opened[i] * given[i]
        weight_dot[i] += factor * product
        met += product * weight[i]
    return met


@once
def _gate_back(value, gate, opened, given, weight, factor, mean):
    """ṡ in place of s, and the gradient of the gate in place of its sigmoid; ``mean`` is r² mean(g ṅ)."""
    one = one_like(value)
    for i in range(len(value)):
        silu = gate[i] * opened[i]
        gated_dot = factor * (weight[i] * given[i] - value[i] * silu * mean)
        gate_dot = gated_dot * value[i] * (opened[i] + silu * (one - opened[i]))
        value[i], opened[i] = silu * gated_dot, gate_dot


@once
def begin_back(inputs, room, count):
    """Clear q̇ behind the last run, which has ``count`` tokens."""
    channels = len(inputs.bias)
    behind = len(inputs.taps) - channels
    cleared = view(room.memory, room.channels_dot + count * channels, behind)
    for i in range(behind):
        cleared[i] = 0


@once
def convolve_back(inputs, room, found, b, start, count):
    """The gradients of ``count`` projected channels from ``start`` on, of window, taps and bias.

    Behind q̇ of the run stands that of the tokens of the next run that have read from it.
    """
    channels, features, memory = len(inputs.bias), len(inputs.weight), room.memory
    before, projected = len(inputs.taps) // channels - 1, inputs.projected
    for t in range(count):
        # ẋ += D ṡ, where ṡ lies where y was; then q̇ = silu'(q) ċ, and the bias gets Σ q̇.
        q_dot = view(memory, room.channels_dot + t * channels, channels)
        skipped = view(memory, room.channels_dot + t * channels, features)
        add_product(skipped, view(inputs.skip, 0, features), view(memory, room.y + t * features, features))
        opened = view(memory, room.opened + t * channels, channels)
        value = view(memory, room.channels + t * channels, channels)
        _activate_back(q_dot, value, opened, view(found.bias, b * channels, channels))
        # ẇ_k += q̇_t p_{t+k−K+1}; tokens before the sequence are in the window.
        for k in range(before + 1):
            tap_dot = view(found.taps, (b * (before + 1) + k) * channels, channels)
            source = start + t + k - before
            if source >= 0:
                place = b * projected.sequence + source * projected.token + features
                add_product(tap_dot, q_dot, view(projected.flat, place, channels))
            else:
                add_product(
                    tap_dot, q_dot, view(inputs.window, ((b + 1) * before + source) * channels, channels)
                )
    # ṗ_s = Σ_k w_k q̇_{s−k+K−1} of the tokens of this run.
    row = features + channels + len(inputs.A)
    for t in range(count):
        out = view(found.projected, (b * inputs.length + start + t) * row + features, channels)
        _gather(inputs, room, out, t, before + 1)
    if start == 0:  # the last token of the window has been read by K − 1 tokens, and so on
        for place in range(before):
            _gather(
                inputs,
                room,
                view(found.window, (b * before + place) * channels, channels),
                place - before,
                place + 1,
            )
    # The first K − 1 q̇ of this run are needed by the run before it: they move behind its end.
    for t in range(before - 1, -1, -1):
        given = view(memory, room.channels_dot + t * channels, channels)
        moved = view(memory, room.channels_dot + (room.tokens + t) * channels, channels)
        for c in range(channels):
            moved[c] = given[c]


@once
def _activate_back(q_dot, value, opened, bias_dot):
    """q̇ in place of ċ; it is added to the gradient of the bias."""
    one = one_like(q_dot)
    for c in range(len(q_dot)):
        found = q_dot[c] * (opened[c] + value[c] * (one - opened[c]))
        q_dot[c] = found
        bias_dot[c] += found


@inner
def _gather(inputs, room, out, t, taps):
    """The gradient of token t of the run, less than 0 in the window, which the first so many taps have read.

    Tap k has read it for token t + K − 1 − k.
    """
    channels, last = len(inputs.bias), len(inputs.taps) // len(inputs.bias) - 1
    for c in range(channels):
        out[c] = 0
    for k in range(taps):
        q_dot = view(room.memory, room.channels_dot + (t + last - k) * channels, channels)
        add_product(out, view(inputs.taps, k * channels, channels), q_dot)
