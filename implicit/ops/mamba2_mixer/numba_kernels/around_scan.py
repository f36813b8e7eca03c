# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The mixer before and after the scan, one token of a sequence after the other.

With K taps w and a bias, the channels of token t are silu(bias + Σ_k w_k p_{t+k−K+1}), where p are the
projected channels and, before the sequence, the window. After the scan come skip connection, gate and norm,
within each group of features:

    s = y + D x        g = s silu(gate)        r = (mean(g²) + ε)^(−1/2)        o = weight r g
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import norm_factor, sigmoid, zero_like
from implicit.ops.numba_shared.jit import inner
from implicit.ops.numba_shared.launch import Strided
from implicit.ops.numba_shared.views import view


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


@inner
def _add_two(inputs, out, b, k, source):
    """Add two taps of projected tokens, ``source`` and the next."""
    channels, projected = len(inputs.bias), inputs.projected
    first = b * projected.sequence + source * projected.token + len(inputs.weight)
    tap, next_tap = view(inputs.taps, k * channels, channels), view(inputs.taps, (k + 1) * channels, channels)
    given = view(projected.flat, first, channels)
    following = view(projected.flat, first + projected.token, channels)
    for c in range(channels):
        out[c] += tap[c] * given[c] + next_tap[c] * following[c]


@inner
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


@inner
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
