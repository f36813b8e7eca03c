"""The models in FLINT's balls, from the stored weights; all checkers evaluate with them.

Nothing here is shared with what made a certificate. Derivatives are matrices worked out by hand for each
layer, where the producer differentiates operation by operation. A comparison of balls is true only if it is
true of all numbers in them. With u the normalised stream, a Mamba-2 layer (`implicit.cells.mamba2`) is

    p = W_in u + injection          q_c = b_c + Σ_k taps_ck window_ck + tap_c p_c,   (x, B, C) = silu(q)
    Δ = softplus(p_Δ + b_Δ)         h'_cn = a h_cn + Δ x_c B_n,   a = exp(−e^{A_log} Δ)
    y_c = Σ_n h'_cn C_n + D x_c     v = W_out rms(y silu(gate))

with h' formed entry by entry where derivatives are taken (the producer factors it), and a DeltaNet layer

    p = W_in u + injection         (q̂, k̂, v) = silu(Σ taps · window + tap p)
    q, k = q̂, k̂ / √(Σ x² + ε)      c = β (v − Sᵀ k),  β = σ(p_β), times 2 with negative eigenvalues
    S' = S + k cᵀ                  y = S'ᵀ q = Sᵀ q + (k · q) c

An Elman network is h' = tanh(W e(x) + b + U h + c). Over an ellipsoid {m + A u : ‖u‖₂ ≤ 1} entry i of the
argument lies within ‖(U A)_i‖₂ of that at m, and the derivative of h' along u is diag(1 − tanh²) U A there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat

from analysis.certificates.arb.linear import (
    Rows,
    Sloped,
    Vector,
    Weights,
    apply,
    exact_matrix,
    exact_vector,
    norm_bound,
    plus,
    rms_norm,
    scaled,
    scaled_to_unit,
    sigmoid,
    silu,
    times,
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The parts of h'_cn = decay_c h_cn + inputs_c B_n, with C, x and gate, each with its derivatives."""

    decay: Sloped
    inputs: Sloped  # Δ x
    B: Sloped
    C: Sloped
    x: Sloped
    gate: Sloped
    decays: Vector  # one a head
    entering: Sloped  # the last column of the next window, one number a convolved channel


class ArbLayer:
    """One Mamba-2 cell with the norm before it."""

    def __init__(self, weights: Weights, groups: int) -> None:
        self.groups = groups
        self.heads = len(weights["A_log"])
        self.d_inner = weights["out_proj.weight"].shape[1]
        self.shared = (len(weights["conv1d.bias"]) - self.d_inner) // 2
        self.in_proj, self.out_proj = (exact_matrix(weights[f"{name}_proj.weight"]) for name in ("in", "out"))
        self.taps = [exact_vector(row) for row in weights["conv1d.weight"][:, 0]]
        self.conv_bias, self.dt_bias = exact_vector(weights["conv1d.bias"]), exact_vector(weights["dt_bias"])
        self.rates = [-a.exp() for a in exact_vector(weights["A_log"])]
        self.skip, self.norm = exact_vector(weights["D"]), exact_vector(weights["norm.weight"])
        self.norm_before = exact_vector(weights["norm_before"])

    def read(
        self,
        u: Vector,
        du: Rows,
        injection: Vector | None,
        window: Rows,
        window_slopes: list[Rows] | None = None,
    ) -> Coefficients:
        """Return the parts of h' from the normalised stream; they do not depend on the layer's own h.

        The window has a row per channel. Its derivatives are ``[channels][d_conv − 1][columns]``; None: zero.
        """
        p, dp = apply(self.in_proj, u), times(self.in_proj, du)
        if injection is not None:
            p = plus(p, injection)
        v: Vector = []
        dv: Rows = []
        for channel, taps in enumerate(self.taps):
            row = self.d_inner + channel
            q = sum((t * w for t, w in zip(taps, window[channel], strict=False)), self.conv_bias[channel])
            value, slope = silu(q + taps[-1] * p[row])
            factor = slope * taps[-1]
            v.append(value)
            rates = [factor * d for d in dp[row]]
            for tap, own in zip(taps, window_slopes[channel] if window_slopes else [], strict=False):
                rates = [rate + slope * tap * d for rate, d in zip(rates, own, strict=True)]
            dv.append(rates)
        x, dx = v[: self.d_inner], dv[: self.d_inner]
        middle = self.d_inner + self.shared
        decay: Sloped = ([], [])
        inputs: Sloped = ([], [])
        decays: Vector = []
        per_head = self.d_inner // self.heads
        for head in range(self.heads):
            row = middle + self.shared + self.d_inner + head
            raw = p[row] + self.dt_bias[head]
            dt = raw.exp().log1p()
            ddt = [sigmoid(raw) * d for d in dp[row]]
            a = (self.rates[head] * dt).exp()
            da = [self.rates[head] * a * d for d in ddt]
            decays.append(a)
            for channel in range(head * per_head, (head + 1) * per_head):
                decay[0].append(a)
                decay[1].append(da)
                inputs[0].append(dt * x[channel])
                inputs[1].append([dt * d + x[channel] * e for d, e in zip(dx[channel], ddt, strict=True)])
        gate, taken = slice(self.d_inner), slice(self.d_inner, self.d_inner + len(self.taps))
        return Coefficients(
            decay,
            inputs,
            (v[self.d_inner : middle], dv[self.d_inner : middle]),
            (v[middle:], dv[middle:]),
            (x, dx),
            (p[gate], dp[gate]),
            decays,
            (p[taken], dp[taken]),
        )

    def output(
        self, found: Coefficients, h: Rows, place: tuple[int, int] | None, h_slopes: list[Rows] | None = None
    ) -> Sloped:
        """Return v and its derivatives; h has a row per channel, ``[d_inner][d_state]``.

        ``place`` is the entry of h whose derivative is asked for, and the column it goes to; ``h_slopes`` are
        derivatives of all entries instead, ``[d_inner][d_state][columns]``.
        """
        d_state, per_group = self.shared // self.groups, self.d_inner // self.groups
        y: Vector = []
        dy: Rows = []
        for group in range(self.groups):
            span = slice(group * d_state, (group + 1) * d_state)
            B, C, dB, dC = found.B[0][span], found.C[0][span], found.B[1][span], found.C[1][span]
            BC = sum((b * c for b, c in zip(B, C, strict=True)), arb(0))
            CdB = times(arb_mat(1, d_state, C), dB)[0]
            channels = range(group * per_group, (group + 1) * per_group)
            hC = apply(arb_mat([h[c] for c in channels]), C)
            if dC[0]:
                following = arb_mat(
                    [
                        [found.decay[0][c] * e + found.inputs[0][c] * b for e, b in zip(h[c], B, strict=True)]
                        for c in channels
                    ]
                )
                values, through_C = apply(following, C), times(following, dC)
            else:  # without derivatives h' is not formed: y = a (h C) + (B · C) Δ x
                parts = zip(channels, hC, strict=True)
                values = [found.decay[0][c] * reading + found.inputs[0][c] * BC for c, reading in parts]
                through_C = [[] for _ in channels]
            for c, value, reading, row in zip(channels, values, hC, through_C, strict=True):
                skip, inputs = self.skip[c * self.heads // self.d_inner], found.inputs[0][c]
                y.append(value + skip * found.x[0][c])
                terms = zip(row, found.decay[1][c], found.inputs[1][c], CdB, found.x[1][c], strict=True)
                dy.append(
                    [t + reading * da + BC * di + inputs * cb + skip * dx for t, da, di, cb, dx in terms]
                )
        if place is not None:
            entry, column = place
            channel, n = divmod(entry, d_state)
            C_n = found.C[0][(channel // per_group) * d_state + n]
            dy[channel][column] += found.decay[0][channel] * C_n
        if h_slopes is not None:
            for c, entries in enumerate(h_slopes):
                first = c // per_group * d_state
                weights = [found.decay[0][c] * C_n for C_n in found.C[0][first : first + d_state]]
                added = times(arb_mat(1, d_state, weights), entries)[0]
                dy[c] = plus(dy[c], added)
        gated: Vector = []
        dgated: Rows = []
        for e, row, g, drow in zip(y, dy, *found.gate, strict=True):
            opened, slope = silu(g)
            closed = e * slope
            gated.append(e * opened)
            dgated.append([opened * d + closed * dg for d, dg in zip(row, drow, strict=True)])
        normalised, dnormalised = rms_norm(gated, dgated, self.norm, self.groups)
        return apply(self.out_proj, normalised), times(self.out_proj, dnormalised)

    def added(
        self, stream: Sloped, injection: Vector | None, window: Rows, h: Rows, place: tuple[int, int] | None
    ) -> tuple[Sloped, Coefficients]:
        """Return the sum that the layer adds to the stream, and the parts of h'."""
        found = self.read(*rms_norm(*stream, self.norm_before), injection, window)
        return self.output(found, h, place), found

    def following(self, found: Coefficients, window: Rows, h: Rows) -> tuple[Rows, Rows]:
        """Return the next window and h', a row per channel each."""
        d_state, per_group = self.shared // self.groups, self.d_inner // self.groups
        shifted = [[*row, new][1:] for row, new in zip(window, found.entering[0], strict=True)]
        after = []
        for channel, row in enumerate(h):
            first = channel // per_group * d_state
            decay, inputs = found.decay[0][channel], found.inputs[0][channel]
            after.append([decay * e + inputs * found.B[0][first + n] for n, e in enumerate(row)])
        return shifted, after

    def following_slopes(
        self, found: Coefficients, h: Rows, window_slopes: list[Rows], h_slopes: list[Rows]
    ) -> Rows:
        """Return the derivatives of the next window and of h', a row per entry, the window first."""
        rows: Rows = []
        for own, new in zip(window_slopes, found.entering[1], strict=True):
            rows += [*own, new][1:]
        d_state = self.shared // self.groups
        for channel, entries in enumerate(h_slopes):
            for n, along in enumerate(entries):
                rest = self.updated(found, channel * d_state + n, h[channel][n])
                decay = found.decay[0][channel]
                rows.append([a + decay * b for a, b in zip(rest, along, strict=True)])
        return rows

    def updated(self, found: Coefficients, row: int, h: arb) -> Vector:
        """Return the derivatives of entry ``row`` of h' along all directions, h itself held fixed."""
        d_state = self.shared // self.groups
        channel, n = divmod(row, d_state)
        b = (channel // (self.d_inner // self.groups)) * d_state + n
        terms = zip(found.decay[1][channel], found.inputs[1][channel], found.B[1][b], strict=True)
        return [h * da + found.B[0][b] * di + found.inputs[0][channel] * db for da, di, db in terms]


State = Mapping[str, Any]  # per name the entries as nested lists of arb


class ArbModel:
    """(Φ, G) of a stored implicit-mamba2 or mamba2."""

    block = "ssm"

    def __init__(self, weights: Weights, sizes: Mapping[str, Any]) -> None:
        self.implicit = "latent_norm.weight" in weights
        self.residual = bool(sizes.get("residual", True))
        self.damping = arb(float(sizes.get("damping", 1.0)))
        self.size = int(sizes["d_model"]) if self.implicit else 0
        count = int(sizes["layers"])
        own = []
        for layer in range(count):  # the arrays of a cell under its own names, and the norm before it
            prefix = f"mixers.{layer}."
            cell = {name[len(prefix) :]: value for name, value in weights.items() if name.startswith(prefix)}
            own.append({**cell, "norm_before": weights[f"mixer_norms.{layer}.weight"]})
        self.shapes = self._make_layers(own, sizes)
        self.blocks = tuple(f"{self.block}.{layer}" for layer in range(count))
        self.head = exact_matrix(weights["head.weight"])
        self._head_bias = exact_vector(weights["head.bias"])
        self.embedding = weights["embedding.weight"]
        self._injections: list[list[Vector | None]] = [[None] * count for _ in self.embedding]
        if self.implicit:
            self.last_norm = exact_vector(weights["latent_norm.weight"])
            norm = exact_vector(weights["embedding_norm.weight"])
            matrices = [exact_matrix(weights[f"injections.{layer}.weight"]) for layer in range(count)]
            for token, row in enumerate(self.embedding):
                u = scaled_to_unit(exact_vector(row), norm)
                self._injections[token] = [apply(matrix, u) for matrix in matrices]

    def _make_layers(self, own: Sequence[Weights], sizes: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Make the layers and return the shapes of the parts of their state."""
        self.layers = [ArbLayer(weights, int(sizes["groups"])) for weights in own]
        shapes = {}
        for index, layer in enumerate(self.layers):
            shapes[f"conv.{index}"] = (len(layer.taps), len(layer.taps[0]) - 1)
            shapes[f"ssm.{index}"] = (layer.d_inner, layer.shared // layer.groups)
        return shapes

    def entry_rates(self, found: Sequence[Any], index: int, place: tuple[int, int], state: State) -> Vector:
        """Return the derivatives of entry ``row`` of h' along z and along entry ``column`` of h."""
        row, column = place
        channel, n = divmod(row, self.shapes[f"ssm.{index}"][1])
        rates = self.layers[index].updated(found[index], row, state[f"ssm.{index}"][channel][n])
        if row == column:
            rates[self.size + index] += found[index].decay[0][channel]
        return rates

    def state(self, numbers: Vector) -> dict[str, Rows]:
        """Return the state whose entries are the numbers, in the order of `shapes`, row by row."""
        found, taken = {}, 0
        for name, (rows, columns) in self.shapes.items():
            starts = [taken + row * columns for row in range(rows)]  # a window of no token has no columns
            found[name] = [numbers[start : start + columns] for start in starts]
            taken += rows * columns
        assert taken == len(numbers)
        return found

    def following(self, found: Sequence[Coefficients], state: State) -> dict[str, Rows]:
        """Return the next state, from the coefficients of every layer."""
        after: dict[str, Rows] = {}
        for index, layer in enumerate(self.layers):
            names = f"conv.{index}", f"ssm.{index}"
            parts = layer.following(found[index], *(state[name] for name in names))
            after |= dict(zip(names, parts, strict=True))
        return after

    def injection(self, token: int) -> Vector:
        """Return the injection of a token into the input projection of the one layer."""
        (added,) = self._injections[token]
        assert added is not None
        return added

    def logits(self, latent: Vector) -> Vector:
        """Return the logits of a latent."""
        return plus(apply(self.head, latent), self._head_bias)

    def evaluate(
        self, token: int, z: Vector, state: State, sources: Sequence[int] | None
    ) -> tuple[Vector, Rows, list[Any]]:
        """Return Φ, its derivatives along z and one entry of h per layer, and the parts of each h'.

        Without ``sources`` there are no derivatives.
        """
        count = len(self.blocks)
        columns = 0 if sources is None else self.size + count
        stream: Sloped = (
            exact_vector(self.embedding[token]),
            [[arb(0)] * columns for _ in self.embedding[token]],
        )
        if self.implicit:
            stream = z, [[arb(int(i == j)) for j in range(columns)] for i in range(self.size)]
        found = []
        for index in range(count):
            place = None if sources is None else (sources[index], self.size + index)
            own = state[f"conv.{index}"], state[f"{self.block}.{index}"]
            added, here = self._layer(index).added(stream, self._injections[token][index], *own, place)
            stream = self._next(stream, added)
            found.append(here)
        if self.implicit:
            stream = rms_norm(*stream, self.last_norm)
        return *stream, found

    def _layer(self, index: int) -> "ArbLayer | DeltaLayer":
        return self.layers[index]

    def _next(self, stream: Sloped, added: Sloped) -> Sloped:
        if not self.residual:
            return added
        slopes = [plus(one, other) for one, other in zip(stream[1], added[1], strict=True)]
        return plus(stream[0], added[0]), slopes

    def image(self, token: int, z: Vector, state: State) -> Vector:
        """Return Φ alone."""
        return self.evaluate(token, z, state, None)[0]

    def evaluate_along(
        self, token: int, z: Vector, state: State, directions: Rows
    ) -> tuple[Vector, Rows, Rows]:
        """Return Φ and its derivatives, and those of G, for a model of one layer.

        The derivatives have a column for every entry of z, then one for every direction.
        """
        (layer,) = self.layers
        window, h = state["conv.0"], state["ssm.0"]
        count = len(directions[0])
        stream = z, [[arb(int(i == j)) for j in range(self.size + count)] for i in range(self.size)]
        spread = iter([[arb(0)] * self.size + list(row) for row in directions])
        window_slopes, h_slopes = ([[next(spread) for _ in row] for row in part] for part in (window, h))
        u = rms_norm(*stream, layer.norm_before)
        found = layer.read(*u, self._injections[token][0], window, window_slopes)
        added = layer.output(found, h, None, h_slopes)
        image, rates = rms_norm(*self._next(stream, added), self.last_norm)
        return image, rates, layer.following_slopes(found, h, window_slopes, h_slopes)


def entries_of(state: State) -> Vector:
    """Return the entries of a state in the order in which `ArbModel.state` takes them."""
    return [entry for part in state.values() for row in part for entry in row]


UNIT_EPSILON = arb(1e-6)  # ε of the unit norm: the float64 number 1e-6


class Written(NamedTuple):
    """The vectors k and c of S' = S + k cᵀ, one pair a head, with derivatives."""

    k: list[Sloped]  # unit keys
    c: list[Sloped]  # the values written at them


class DeltaLayer:
    """One DeltaNet cell with the norm before it."""

    def __init__(self, weights: Weights, sizes: Mapping[str, Any]) -> None:
        self.heads, self.key_size = int(sizes["heads"]), int(sizes["key_size"])
        self.in_proj, self.out_proj = (exact_matrix(weights[f"{name}_proj.weight"]) for name in ("in", "out"))
        self.norm_before = exact_vector(weights["norm_before"])
        self.norm = exact_vector(weights["norm.weight"])
        self.value_size = len(self.norm)
        self.channels = self.heads * (2 * self.key_size + self.value_size)
        taps = weights.get("convolution.weight", np.ones((self.channels, 1)))  # of width 1 it has no weight
        self.taps = [exact_vector(row) for row in taps]
        self.largest_beta = 2 if sizes.get("negative_eigenvalues") else 1
        self.epsilon = arb(1e-5 * self.key_size)

    def added(
        self,
        stream: Sloped,
        injection: Vector | None,
        window: Rows,
        memory: Rows,
        place: tuple[int, int] | None,
    ) -> tuple[Sloped, Written]:
        """Return the sum that the layer adds to the stream, and the keys and values that it writes."""
        assert injection is not None
        u, du = rms_norm(*stream, self.norm_before)
        p = plus(apply(self.in_proj, u), injection)
        dp = times(self.in_proj, du)
        v: Vector = []
        dv: Rows = []
        for channel, taps in enumerate(self.taps):
            before = sum((t * w for t, w in zip(taps[:-1], window[channel], strict=True)), arb(0))
            value, slope = silu(before + taps[-1] * p[channel])
            v.append(value)
            dv.append([slope * taps[-1] * d for d in dp[channel]])
        keys, found, y, dy = self.heads * self.key_size, Written([], []), list[arb](), list[list[arb]]()
        for head in range(self.heads):
            own = slice(head * self.key_size, (head + 1) * self.key_size)
            q, dq = scaled(v[:keys][own], dv[:keys][own], 1, UNIT_EPSILON)
            k, dk = scaled(v[keys : 2 * keys][own], dv[keys : 2 * keys][own], 1, UNIT_EPSILON)
            first = 2 * keys + head * self.value_size
            raw = p[self.channels + head]
            gate, closed = sigmoid(raw), sigmoid(-raw)
            beta = self.largest_beta * gate
            dbeta = [beta * closed * d for d in dp[self.channels + head]]
            S = arb_mat(memory[own]).transpose()
            kept, dkept = apply(S, k), times(S, dk)
            read, dread = apply(S, q), times(S, dq)
            if place is not None and place[0] // self.value_size in range(own.start, own.stop):
                row, j = divmod(place[0], self.value_size)
                dkept[j][place[1]] += k[row - own.start]
                dread[j][place[1]] += q[row - own.start]
            w = [a - b for a, b in zip(v[first:], kept, strict=False)]
            c = [beta * e for e in w]
            dc = [
                [e * db + beta * (a - b) for db, a, b in zip(dbeta, da, dr, strict=True)]
                for e, da, dr in zip(w, dv[first:], dkept, strict=False)
            ]
            kq = sum((a * b for a, b in zip(k, q, strict=True)), arb(0))
            (left,), (right,) = times(arb_mat(1, len(k), k), dq), times(arb_mat(1, len(q), q), dk)
            dkq = plus(left, right)
            out = [a + kq * e for a, e in zip(read, c, strict=True)]
            dout = [
                [d + e * f + kq * g for d, f, g in zip(rates, dkq, gains, strict=True)]
                for e, rates, gains in zip(c, dread, dc, strict=True)
            ]
            out, dout = rms_norm(out, dout, self.norm, epsilon=self.epsilon)
            y, dy = y + out, dy + dout
            found.k.append((k, dk))
            found.c.append((c, dc))
        return (apply(self.out_proj, y), times(self.out_proj, dy)), found


class ArbDeltaNet(ArbModel):
    """Φ and the update of the memories of a stored implicit-deltanet without MLPs."""

    block = "memory"

    def _make_layers(self, own: Sequence[Weights], sizes: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        self.delta_layers = [DeltaLayer(weights, sizes) for weights in own]
        shapes = {}
        for index, layer in enumerate(self.delta_layers):
            shapes[f"conv.{index}"] = (layer.channels, len(layer.taps[0]) - 1)
            shapes[f"memory.{index}"] = (layer.heads * layer.key_size, layer.value_size)
        return shapes

    def _layer(self, index: int) -> DeltaLayer:
        return self.delta_layers[index]

    def entry_rates(self, found: Sequence[Any], index: int, place: tuple[int, int], state: State) -> Vector:
        """Return the derivatives of entry ``row`` of S' along z and along entry ``column`` of S."""
        row, column = place
        layer, (keys, written) = self.delta_layers[index], found[index]
        key, j = divmod(row, layer.value_size)
        head, i = divmod(key, layer.key_size)
        (k, dk), (c, dc) = keys[head], written[head]
        rates = [a * c[j] + k[i] * b for a, b in zip(dk[i], dc[j], strict=True)]
        if row == column:
            rates[self.size + index] += 1
        return rates


class ArbElman:
    """The step and the logits of an Elman network."""

    def __init__(self, weights: Weights) -> None:
        self.hidden = exact_matrix(weights["rnn.weight_hh_l0"])
        self.head, self._head_bias = exact_matrix(weights["head.weight"]), exact_vector(weights["head.bias"])
        self.size, self.tokens = self.hidden.nrows(), len(weights["embedding.weight"])
        inputs = exact_matrix(weights["rnn.weight_ih_l0"])
        biases = [exact_vector(weights[f"rnn.bias_{kind}_l0"]) for kind in ("ih", "hh")]
        self._read = [
            [a + b + c for a, b, c in zip(apply(inputs, exact_vector(row)), *biases, strict=True)]
            for row in weights["embedding.weight"]
        ]

    def step(self, token: int, centre: Vector, axes: arb_mat) -> tuple[Vector, arb_mat]:
        """Return h' at the centre of an ellipsoid, and the derivative along its axes over all of it."""
        along = self.hidden * axes
        middle = plus(self._read[token], apply(self.hidden, centre))
        slopes = []
        for number, row in zip(middle, along.tolist(), strict=True):
            bent = (number + arb(0, norm_bound(row))).tanh()
            slopes.append([(1 - bent) * (1 + bent) * entry for entry in row])
        return [number.tanh() for number in middle], arb_mat(slopes)

    def logits(self, state: Vector) -> Vector:
        """Return the logits of a state."""
        return plus(apply(self.head, state), self._head_bias)
