"""The Mamba-2 models once more, in FLINT's balls, from the stored weights: the checker's evaluation.

Nothing here is shared with what made the certificate. Derivatives are matrices worked out by hand for each
layer, where the producer differentiates operation by operation; and h' is formed entry by entry, where the
producer factors it. With u the normalised stream and the names of `implicit.cells.mamba2`, one layer is

    p = W_in u + injection          q_c = b_c + Σ_k taps_ck window_ck + tap_c p_c,   (x, B, C) = silu(q)
    Δ = softplus(p_Δ + b_Δ)         h'_cn = a h_cn + Δ x_c B_n,   a = exp(−e^{A_log} Δ)
    y_c = Σ_n h'_cn C_n + D x_c     v = W_out rms(y silu(gate))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.balls import (
    Rows,
    Vector,
    apply,
    exact_matrix,
    exact_vector,
    rms_norm,
    scaled_to_unit,
    sigmoid,
    silu,
    times,
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The parts of h'_cn = decay_c h_cn + inputs_c B_n, with C, x and gate, and all derivatives.

    Derivatives are along z and along h of earlier layers. ``inputs`` is Δ x, ``decays`` one a head,
    ``entering`` what the next window takes in, one a convolved channel.
    """

    decay: tuple[Vector, Rows]
    inputs: tuple[Vector, Rows]
    B: tuple[Vector, Rows]
    C: tuple[Vector, Rows]
    x: tuple[Vector, Rows]
    gate: tuple[Vector, Rows]
    decays: Vector
    entering: Vector
    entering_slopes: Rows


class ArbLayer:
    """One Mamba-2 cell with the norm before it."""

    def __init__(self, weights: Mapping[str, NDArray[np.floating[Any]]], groups: int) -> None:
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

    def coefficients(
        self,
        stream: Vector,
        slopes: Rows,
        injection: Vector | None,
        window: Rows,
        window_slopes: list[Rows] | None = None,
    ) -> Coefficients:
        """Return what h' is made of; the layer's own h is no argument.

        Args:
            stream: what the layer reads.
            slopes: its derivatives.
            injection: of the token.
            window: a row per channel.
            window_slopes: derivatives of the window's entries, ``[channels][d_conv − 1][columns]``; zero if
                None.
        """
        return self.read(*rms_norm(stream, slopes, self.norm_before), injection, window, window_slopes)

    def read(
        self,
        u: Vector,
        du: Rows,
        injection: Vector | None,
        window: Rows,
        window_slopes: list[Rows] | None = None,
    ) -> Coefficients:
        """Return the same from the normalised stream and its derivatives."""
        p, dp = apply(self.in_proj, u), times(self.in_proj, du)
        if injection is not None:
            p = [a + b for a, b in zip(p, injection, strict=True)]
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
        decay: tuple[Vector, Rows] = ([], [])
        inputs: tuple[Vector, Rows] = ([], [])
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
        return Coefficients(
            decay,
            inputs,
            (v[self.d_inner : middle], dv[self.d_inner : middle]),
            (v[middle:], dv[middle:]),
            (x, dx),
            (p[: self.d_inner], dp[: self.d_inner]),
            decays,
            p[self.d_inner : self.d_inner + len(self.taps)],
            dp[self.d_inner : self.d_inner + len(self.taps)],
        )

    def output(
        self, found: Coefficients, h: Rows, place: tuple[int, int] | None, h_slopes: list[Rows] | None = None
    ) -> tuple[Vector, Rows]:
        """Return v and its derivatives.

        Args:
            found: the coefficients.
            h: a row per channel, ``[d_inner][d_state]``.
            place: the entry of h whose derivative is asked for, and the column it goes to; None for none.
            h_slopes: derivatives of all entries of h instead, ``[d_inner][d_state][columns]``.
        """
        normalised, dnormalised = rms_norm(*self.gated(found, h, place, h_slopes), self.norm, self.groups)
        return apply(self.out_proj, normalised), times(self.out_proj, dnormalised)

    def gated(
        self,
        found: Coefficients,
        h: Rows,
        place: tuple[int, int] | None = None,
        h_slopes: list[Rows] | None = None,
    ) -> tuple[Vector, Rows]:
        """Return y silu(gate), which the gated norm normalises, and its derivatives."""
        d_state, per_group = self.shared // self.groups, self.d_inner // self.groups
        y: Vector = []
        dy: Rows = []
        for group in range(self.groups):
            span = slice(group * d_state, (group + 1) * d_state)
            B, C, dB, dC = found.B[0][span], found.C[0][span], found.B[1][span], found.C[1][span]
            BC = sum((b * c for b, c in zip(B, C, strict=True)), arb(0))
            CdB = times(arb_mat(1, d_state, C), dB)[0]
            channels = range(group * per_group, (group + 1) * per_group)
            following = [
                [found.decay[0][c] * e + found.inputs[0][c] * b for e, b in zip(h[c], B, strict=True)]
                for c in channels
            ]
            values = apply(arb_mat(following), C)
            hC = apply(arb_mat([h[c] for c in channels]), C)
            through_C = times(arb_mat(following), dC)
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
                dy[c] = [a + b for a, b in zip(dy[c], added, strict=True)]
        gated: Vector = []
        dgated: Rows = []
        for e, row, g, drow in zip(y, dy, *found.gate, strict=True):
            opened, slope = silu(g)
            closed = e * slope
            gated.append(e * opened)
            dgated.append([opened * d + closed * dg for d, dg in zip(row, drow, strict=True)])
        return gated, dgated

    def value(self, stream: Vector, injection: Vector | None, window: Rows, h: Rows) -> Vector:
        """Return v alone, by y_c = a (h C)_c + (B · C) Δ x_c + D x_c, without forming h'."""
        u = scaled_to_unit(stream, self.norm_before)
        p = apply(self.in_proj, u)
        if injection is not None:
            p = [a + b for a, b in zip(p, injection, strict=True)]
        v: Vector = []
        for taps, before, bias, new in zip(
            self.taps, window, self.conv_bias, p[self.d_inner : self.d_inner + len(self.taps)], strict=True
        ):
            q = sum((t * w for t, w in zip(taps, before, strict=False)), bias) + taps[-1] * new
            v.append(q * sigmoid(q))
        d_state, per_group = self.shared // self.groups, self.d_inner // self.groups
        middle, per_head = self.d_inner + self.shared, self.d_inner // self.heads
        gated: Vector = []
        for group in range(self.groups):
            first = group * d_state
            B, C = (v[start + first : start + first + d_state] for start in (self.d_inner, middle))
            BC = sum((b * c for b, c in zip(B, C, strict=True)), arb(0))
            channels = range(group * per_group, (group + 1) * per_group)
            for c, reading in zip(channels, apply(arb_mat([h[c] for c in channels]), C), strict=True):
                head = c // per_head
                if c % per_head == 0:
                    dt = (p[middle + self.shared + self.d_inner + head] + self.dt_bias[head]).exp().log1p()
                    decay, read = (self.rates[head] * dt).exp(), dt * BC + self.skip[head]
                gated.append((decay * reading + read * v[c]) * p[c] * sigmoid(p[c]))
        size = len(gated) // self.groups
        normalised: Vector = []
        for start in range(0, len(gated), size):
            normalised += scaled_to_unit(gated[start : start + size], self.norm[start : start + size])
        return apply(self.out_proj, normalised)

    def following(self, found: Coefficients, window: Rows, h: Rows) -> tuple[Rows, Rows]:
        """Return the next window and h', a row per channel each."""
        d_state, per_group = self.shared // self.groups, self.d_inner // self.groups
        shifted = [[*row, new][1:] for row, new in zip(window, found.entering, strict=True)]
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
        for own, new in zip(window_slopes, found.entering_slopes, strict=True):
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


State = Mapping[str, Any]
"""Per name the entries as nested lists of arb."""


class ArbModel:
    """(Φ, G) of a stored implicit-mamba2 or mamba2."""

    block = "ssm"

    def __init__(self, weights: Mapping[str, NDArray[np.floating[Any]]], sizes: Mapping[str, Any]) -> None:
        self.implicit = "latent_norm.weight" in weights
        self.residual = bool(sizes.get("residual", True))
        self.damping = arb(float(sizes.get("damping", 1.0)))
        self.size = int(sizes["d_model"]) if self.implicit else 0
        count = int(sizes["layers"])
        self.shapes = self._make_layers(weights, sizes)
        self.blocks = tuple(f"{self.block}.{layer}" for layer in range(count))
        self.head = exact_matrix(weights["head.weight"])
        self._head_bias = exact_vector(weights["head.bias"])
        self.embedding = weights["embedding.weight"]
        self._injections: list[list[Vector | None]] = [[None] * count for _ in self.embedding]
        if self.implicit:
            self.last_norm = exact_vector(weights["latent_norm.weight"])
            norm = exact_vector(weights["embedding_norm.weight"])
            matrices = [exact_matrix(weights[f"injections.{layer}.weight"]) for layer in range(count)]
            for token in range(len(self.embedding)):
                u, _ = rms_norm(*self._embedded(token, 0), norm)
                self._injections[token] = [apply(matrix, u) for matrix in matrices]

    def _make_layers(
        self, weights: Mapping[str, NDArray[np.floating[Any]]], sizes: Mapping[str, Any]
    ) -> dict[str, tuple[int, int]]:
        """Make the layers and return the shapes of the parts of their state."""
        groups = int(sizes["groups"])
        self.layers = [
            ArbLayer(self.layer_weights(weights, layer), groups) for layer in range(int(sizes["layers"]))
        ]
        shapes = {}
        for index, arb_layer in enumerate(self.layers):
            shapes[f"conv.{index}"] = (len(arb_layer.taps), len(arb_layer.taps[0]) - 1)
            shapes[f"ssm.{index}"] = (arb_layer.d_inner, arb_layer.shared // arb_layer.groups)
        return shapes

    @staticmethod
    def layer_weights(
        weights: Mapping[str, NDArray[np.floating[Any]]], layer: int
    ) -> dict[str, NDArray[np.floating[Any]]]:
        """Return the arrays of a layer's cell under the cell's own names, and the norm before it."""
        prefix = f"mixers.{layer}."
        own = {name[len(prefix) :]: value for name, value in weights.items() if name.startswith(prefix)}
        return {**own, "norm_before": weights[f"mixer_norms.{layer}.weight"]}

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
        """Return what a token adds to the input projection of the one layer of an implicit model."""
        (added,) = self._injections[token]
        assert added is not None
        return added

    def logits(self, latent: Vector) -> Vector:
        """Return what a latent is decoded to."""
        return [a + b for a, b in zip(apply(self.head, latent), self._head_bias, strict=True)]

    def evaluate(
        self, token: int, z: Vector, state: State, sources: Sequence[int] | None
    ) -> tuple[Vector, Rows, list[Coefficients]]:
        """Return Φ, its derivatives along z and one entry of h per layer, and every layer's coefficients."""
        columns = 0 if sources is None else self.size + len(self.layers)
        stream, slopes = self._embedded(token, columns)
        if self.implicit:
            stream, slopes = z, [[arb(int(i == j)) for j in range(columns)] for i in range(self.size)]
        found: list[Coefficients] = []
        for index, layer in enumerate(self.layers):
            window, h = state[f"conv.{index}"], state[f"ssm.{index}"]
            here = layer.coefficients(stream, slopes, self._injections[token][index], window)
            place = None if sources is None else (sources[index], self.size + index)
            v, dv = layer.output(here, h, place)
            if self.residual:
                v = [a + b for a, b in zip(stream, v, strict=True)]
                dv = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(slopes, dv, strict=True)]
            stream, slopes = v, dv
            found.append(here)
        if self.implicit:
            stream, slopes = rms_norm(stream, slopes, self.last_norm)
        return stream, slopes, found

    def image(self, token: int, z: Vector, state: State) -> Vector:
        """Return Φ alone, of an implicit model."""
        stream = z
        for index, layer in enumerate(self.layers):
            own = state[f"conv.{index}"], state[f"ssm.{index}"]
            v = layer.value(stream, self._injections[token][index], *own)
            stream = [a + b for a, b in zip(stream, v, strict=True)] if self.residual else v
        return scaled_to_unit(stream, self.last_norm)

    def evaluate_along(
        self, token: int, z: Vector, state: State, directions: Rows
    ) -> tuple[Vector, Rows, Rows]:
        """Return Φ and its derivatives, and those of G, for a model of one layer.

        Returns:
            The derivatives have a column for every entry of z, then one for every direction.
        """
        (layer,) = self.layers
        window, h = state["conv.0"], state["ssm.0"]
        count = len(directions[0])
        slopes = [[arb(int(i == j)) for j in range(self.size + count)] for i in range(self.size)]
        spread = [[arb(0)] * self.size + list(row) for row in directions]
        taken = 0
        window_slopes: list[Rows] = []
        h_slopes: list[Rows] = []
        for part, rows in ((window, window_slopes), (h, h_slopes)):
            for entries in part:
                rows.append(spread[taken : taken + len(entries)])
                taken += len(entries)
        found = layer.coefficients(z, slopes, self._injections[token][0], window, window_slopes)
        v, dv = layer.output(found, h, None, h_slopes)
        if self.residual:
            v = [a + b for a, b in zip(z, v, strict=True)]
            dv = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(slopes, dv, strict=True)]
        image, rates = rms_norm(v, dv, self.last_norm)
        return image, rates, layer.following_slopes(found, h, window_slopes, h_slopes)

    def _embedded(self, token: int, columns: int) -> tuple[Vector, Rows]:
        stream = exact_vector(self.embedding[token])
        return stream, [[arb(0)] * columns for _ in stream]


def entries_of(state: State) -> Vector:
    """Return the entries of a state in the order in which `ArbModel.state` takes them."""
    return [entry for part in state.values() for row in part for entry in row]
