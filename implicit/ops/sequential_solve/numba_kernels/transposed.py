# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The transposed derivative of Φ and G at the tokens that the places are at.

With v the adjoint of the image and λ that of the state after the token, ``pull_back`` computes ∂zΦᵀ v, and at
places that are ``whole`` ∂zΦᵀ v + ∂zGᵀ λ; ``step_back`` then replaces λ by ∂sΦᵀ v + ∂sGᵀ λ.
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import zero_like
from implicit.ops.numba_shared.jit import inner, once
from implicit.ops.numba_shared.matrices import add_products, row_of, view


class Transposed(NamedTuple):
    """The matrices of the layers, transposed and packed."""

    in_proj: np.ndarray
    out_proj: np.ndarray


class Pulled(NamedTuple):
    """Adjoints at the places, named as forwards; ``vectors`` are v and ``streams`` become ∂zΦᵀ v."""

    vectors: np.ndarray
    streams: np.ndarray
    normed: np.ndarray
    gated: np.ndarray
    projected: np.ndarray
    convolved: np.ndarray


@once
def pull_back(weights, transposed, trail, slopes, pulled, windows, states, whole, token, length, count):
    """Multiply the vectors of the first ``count`` places; ``windows`` and ``states`` hold λ of the places."""
    layers, features, size = weights.skips.shape[0], len(weights.latent_norm), len(whole)
    # Through the last norm: ṡ = r (w − n mean(n · w)), w = v times its weights.
    for place in range(count):
        stream, v = row_of(pulled.streams, place), row_of(pulled.vectors, place)
        for i in range(features):
            stream[i] = v[i] * weights.latent_norm[i]
        _through_norm(slopes, layers * size + place, stream, features)
    # The layers from the last to the first; the products with Wᵀ add to rows of zeros.
    for layer in range(layers - 1, -1, -1):
        first = layer * size
        for place in range(count):
            gated = row_of(pulled.gated, first + place)
            for i in range(len(gated)):
                gated[i] = 0
            normed = row_of(pulled.normed, place)
            for i in range(features):
                normed[i] = 0
        # The output projection, s' = s + W n: the adjoint of n is Wᵀ ṡ.
        add_products(transposed.out_proj, layer, pulled.streams, 0, pulled.gated, first, count)
        for place in range(count):
            token_read = max(token[place], 0)  # a place that is through, at -1, idles on its first token
            at = (place * length + token_read) * layers + layer
            _through_scan(
                weights, trail, slopes, pulled, windows, states, layer, at, first + place, place, whole[place]
            )
        # The input projection of norm(s): its adjoint goes through the norm, and with a residual is added.
        add_products(transposed.in_proj, layer, pulled.projected, first, pulled.normed, 0, count)
        for place in range(count):
            normed, stream = row_of(pulled.normed, place), row_of(pulled.streams, place)
            _through_norm(slopes, first + place, normed, features)
            if weights.residual:
                for i in range(features):
                    stream[i] += normed[i]
            else:
                for i in range(features):
                    stream[i] = normed[i]


@inner
def _through_norm(slopes, row, vector, features):
    """Replace w by r (w − n mean(n w)), n = norm(x) and r its factor."""
    normed, factor = row_of(slopes.normed, row), slopes.factors[row, 0]
    total = zero_like(vector)
    for i in range(features):
        total += normed[i] * vector[i]
    mean = total * slopes.factors[row, 1]
    for i in range(features):
        vector[i] = factor * (vector[i] - normed[i] * mean)


@once
def _through_scan(weights, trail, slopes, pulled, windows, states, layer, at, row, place, whole):
    inner, heads, size = slopes.gated.shape[1], weights.skips.shape[1], trail.states.shape[1]
    channels, groups = trail.convolved.shape[1], weights.groups
    per_group, heads_of_group, head_size = inner // groups, heads // groups, inner // heads
    # Rows of λ, and where the adjoints of the projection and of the channels of this row begin.
    own = (place * weights.skips.shape[0] + layer) * size  # of λ, in rows
    projected = row * pulled.projected.shape[1]
    convolved = row * channels
    width = pulled.gated.shape[1]
    for group in range(groups):
        begin = group * per_group
        # The gated norm n = r q, q = y silu(gate): w = adjoint − n mean(n · adjoint), without r, which
        # `opened` and `gate_slope` hold; the gate gets w y silu'(gate) r, and y gets w silu(gate) r.
        adjoint = view(pulled.gated, row * width + begin, per_group)
        n = view(slopes.gated, row * inner + begin, per_group)
        total = zero_like(adjoint)
        for i in range(per_group):
            total += n[i] * adjoint[i]
        mean = total * slopes.factors[row, 2]
        opened = view(slopes.opened, row * inner + begin, per_group)
        gate_slope = view(slopes.gate_slopes, row * inner + begin, per_group)
        gate = view(pulled.projected, projected + begin, per_group)
        for i in range(per_group):
            w = adjoint[i] - n[i] * mean
            gate[i] = w * gate_slope[i]
            adjoint[i] = w * opened[i]  # now of y
        # The scan read at z: y = e^(ΔA) h C + (Δ (B · C) + D) x. With ẏ its adjoint, ẋ = (Δ (B · C) + D) ẏ,
        # (B · C)˙ = Σ_heads Δ ẏ · x, Δ˙ = ẏ · ∂y/∂Δ, and e^(ΔA) ẏ is the adjoint of h C.
        B = view(slopes.activated, row * channels + inner + group * size, size)
        C = view(slopes.activated, row * channels + inner + (groups + group) * size, size)
        B_dot = view(pulled.convolved, convolved + inner + group * size, size)
        C_dot = view(pulled.convolved, convolved + inner + (groups + group) * size, size)
        overlap_dot = zero_like(adjoint)
        for head in range(group * heads_of_group, (group + 1) * heads_of_group):
            first = head * head_size
            y = view(pulled.gated, row * width + first, head_size)
            x = view(slopes.activated, row * channels + first, head_size)
            x_dot = view(pulled.convolved, convolved + first, head_size)
            of_step = view(slopes.of_steps, row * inner + first, head_size)
            step, gain, decay = trail.steps[at, head], slopes.gains[row, head], trail.decays[at, head]
            along_x, along_step = zero_like(adjoint), zero_like(adjoint)
            for i in range(head_size):
                along_x += y[i] * x[i]
                along_step += y[i] * of_step[i]
                x_dot[i] = gain * y[i]
                y[i] *= decay  # now of h C
            overlap_dot += step * along_x
            pulled.projected[row, inner + channels + head] = along_step
        # Ċ = hᵀ (e^(ΔA) ẏ) + (B · C)˙ B and Ḃ = (B · C)˙ C.
        for s in range(size):
            h = view(trail.states, (at * size + s) * inner + begin, per_group)
            total = zero_like(adjoint)
            for i in range(per_group):
                total += adjoint[i] * h[i]
            C_dot[s] = total + overlap_dot * B[s]
            B_dot[s] = overlap_dot * C[s]
        # ∂zGᵀ λ, of h' = e^(ΔA) h + Δ x Bᵀ: ẋ += Δ λ B, Ḃ += Δ λᵀ x, Δ˙ += Bᵀ λᵀ x + A e^(ΔA) λ · h.
        if whole:
            for head in range(group * heads_of_group, (group + 1) * heads_of_group):
                first = head * head_size
                x = view(slopes.activated, row * channels + first, head_size)
                x_dot = view(pulled.convolved, convolved + first, head_size)
                step, decay, rate = trail.steps[at, head], trail.decays[at, head], weights.rates[layer, head]
                written, kept = zero_like(adjoint), zero_like(adjoint)
                for s in range(size):
                    along = view(states, (own + s) * inner + first, head_size)
                    h = view(trail.states, (at * size + s) * inner + first, head_size)
                    b, total = B[s], zero_like(adjoint)
                    factor = step * b
                    for i in range(head_size):
                        total += along[i] * x[i]
                        kept += along[i] * h[i]
                        x_dot[i] += factor * along[i]
                    B_dot[s] += step * total
                    written += b * total
                pulled.projected[row, inner + channels + head] += written + rate * decay * kept
    # c = silu(past + tap p): ṗ = tap silu'(·) ċ, and of G the newest row of the window is p itself.
    newest = weights.taps.shape[1] - 1
    channel, dots = view(pulled.projected, projected + inner, channels), row_of(pulled.convolved, row)
    slope, tap = row_of(slopes.channel_slopes, row), row_of(weights.taps, layer * (newest + 1) + newest)
    for i in range(channels):
        dots[i] *= slope[i]
        channel[i] = dots[i] * tap[i]
    if whole and newest > 0:
        window = row_of(windows, (place * weights.skips.shape[0] + layer) * newest + newest - 1)
        for i in range(channels):
            channel[i] += window[i]
    # Δ = softplus(raw): raw˙ = σ(raw) Δ˙.
    for head in range(heads):
        pulled.projected[row, inner + channels + head] *= slopes.step_slopes[row, head]


@once
def step_back(weights, trail, slopes, pulled, windows, states, size, length, place, t):
    """Replace λ by that of the state before the token, after a product with the whole at the place."""
    layers, heads, width = weights.skips.shape[0], weights.skips.shape[1], trail.states.shape[1]
    inner, channels, groups = slopes.gated.shape[1], trail.convolved.shape[1], weights.groups
    head_size, heads_of_group, older = inner // heads, heads // groups, weights.taps.shape[1] - 1
    for layer in range(layers):
        row, at = layer * size + place, (place * length + t) * layers + layer
        own = place * layers + layer
        dots = row_of(pulled.convolved, row)
        # The window moves by one: λ_k ← λ_{k−1} + tap_k q̇, q̇ the adjoint of the convolution.
        for k in range(older - 1, -1, -1):
            into, tap = row_of(windows, own * older + k), row_of(weights.taps, layer * (older + 1) + k)
            if k > 0:
                earlier = row_of(windows, own * older + k - 1)
                for i in range(channels):
                    into[i] = earlier[i] + dots[i] * tap[i]
            else:
                for i in range(channels):
                    into[i] = dots[i] * tap[i]
        # h enters y through e^(ΔA) h C and h' through e^(ΔA) h: λ ← e^(ΔA) λ + e^(ΔA) ẏ Cᵀ.
        # `gated` holds e^(ΔA) ẏ.
        for head in range(heads):
            C = view(
                slopes.activated, row * channels + inner + (groups + head // heads_of_group) * width, width
            )
            y = view(pulled.gated, row * pulled.gated.shape[1] + head * head_size, head_size)
            decay = trail.decays[at, head]
            for s in range(width):
                c, along = C[s], view(states, (own * width + s) * inner + head * head_size, head_size)
                for i in range(head_size):
                    along[i] = decay * along[i] + c * y[i]
