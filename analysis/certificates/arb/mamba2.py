"""The models once more, in FLINT's ball arithmetic, from the stored weights: the checker's evaluation.

Nothing here is shared with what made the certificate. Numbers are `flint.arb` of any precision; derivatives
are matrices worked out by hand for each layer, where the producer differentiates operation by operation; and
h' is formed entry by entry, where the producer factors it. With u the normalised stream and the names of
`implicit.cells.mamba2`, one layer is

    p = W_in u + injection          q_c = b_c + Σ_k taps_ck window_ck + tap_c p_c,   (x, B, C) = silu(q)
    Δ = softplus(p_Δ + b_Δ)         h'_cn = a h_cn + Δ x_c B_n,   a = exp(−e^{A_log} Δ)
    y_c = Σ_n h'_cn C_n + D x_c     v = W_out rms(y silu(gate))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

Vector = list[arb]
Rows = list[list[arb]]
"""A matrix of derivatives: a row for each number, a column for each direction."""
EPSILON = arb(1e-5)
"""ε of every norm: the float64 number 1e-5."""


def exact_vector(numbers: NDArray[np.floating[Any]]) -> Vector:
    """Return floats as exact balls.

    Example:
        >>> exact_vector(np.array([0.5]))[0].is_exact()
        True
    """
    return [arb(float(number)) for number in numbers.ravel()]


def exact_matrix(numbers: NDArray[np.floating[Any]]) -> arb_mat:
    """Return a matrix of floats as exact balls.

    Example:
        >>> exact_matrix(np.eye(2)).det() == 1
        True
    """
    rows, columns = numbers.shape
    return arb_mat(rows, columns, exact_vector(numbers))


def times(matrix: arb_mat, rows: Rows) -> Rows:
    """Return the product of a matrix and rows of derivatives.

    Example:
        >>> times(arb_mat([[2]]), [[arb(3)]]) == [[arb(6)]]
        True
    """
    return (matrix * arb_mat(rows)).tolist() if rows[0] else [[] for _ in range(matrix.nrows())]


def apply(matrix: arb_mat, vector: Vector) -> Vector:
    """Return M v.

    Example:
        >>> apply(arb_mat([[2]]), [arb(3)]) == [arb(6)]
        True
    """
    return (matrix * arb_mat(len(vector), 1, vector)).entries()


def sigmoid(x: arb) -> arb:
    """Return 1 / (1 + e^{−x}).

    Example:
        >>> sigmoid(arb(0)) == 0.5
        True
    """
    return 1 / (1 + (-x).exp())


def silu(x: arb) -> tuple[arb, arb]:
    """Return x σ(x) by its mean-value form, and its slope σ(x) (1 + x σ(−x)), both over the ball x.

    Example:
        >>> silu(arb(0)) == (arb(0), arb(0.5))
        True
    """
    inner = sigmoid(x)
    slope = inner * (1 + x * (1 - inner))
    middle = x.mid()
    return middle * sigmoid(middle) + slope * (x - middle), slope


def rms_norm(x: Vector, slopes: Rows, weight: Vector, groups: int = 1) -> tuple[Vector, Rows]:
    """Return y = w ∘ x r with r = (mean x² + ε)^{−1/2} a group, and dy = w ∘ (r dx − x r³ (xᵀ dx) / n).

    Example:
        >>> y, dy = rms_norm([arb(1), arb(1)], [[arb(1)], [arb(0)]], [arb(1), arb(1)])
        >>> abs(y[0] - 1) < 1e-4, abs(dy[0][0] - 0.5) < 1e-4
        (True, True)
    """
    size = len(x) // groups
    y: Vector = []
    dy: Rows = []
    for start in range(0, len(x), size):
        part, rates = x[start : start + size], slopes[start : start + size]
        r = (sum((e * e for e in part), arb(0)) / size + EPSILON).rsqrt()
        inner = times(arb_mat(1, size, part), rates)[0]
        common = [c * r * r / size for c in inner]
        for e, row, w in zip(part, rates, weight[start : start + size], strict=True):
            scale = w * r
            y.append(e * scale)
            dy.append([scale * (d - e * c) for d, c in zip(row, common, strict=True)])
    return y, dy


def scaled_to_unit(x: Vector, weight: Vector) -> Vector:
    """Return w ∘ x (mean x² + ε)^{−1/2}, as `rms_norm` without derivatives.

    Example:
        >>> abs(scaled_to_unit([arb(3), arb(4)], [arb(1), arb(1)])[0] - arb(18).sqrt() / 5) < 1e-6
        True
    """
    r = (sum((e * e for e in x), arb(0)) / len(x) + EPSILON).rsqrt()
    return [e * r * w for e, w in zip(x, weight, strict=True)]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What h'_cn = decay_c h_cn + inputs_c B_n is made of, with derivatives, and C, x, gate for the output.

    Attributes:
        decay: one per channel, with the derivatives along z and along h of earlier layers; so for the others.
        inputs: Δ x, one per channel.
        B: of each group.
        C: of each group.
        x: the convolved channels.
        gate: before its SiLU.
        decays: one per head.
        entering: what the next window takes in, one per convolved channel.
        entering_slopes: its derivatives.

    Example:
        `ArbLayer.coefficients` makes them.
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
    """One Mamba-2 cell with the norm before it.

    Args:
        weights: arrays of the cell under the names of its state dict, and ``norm_before``.
        groups: groups of heads that share B and C.

    Example:
        >>> from implicit.cells import Mamba2Cell
        >>> cell = Mamba2Cell(d_model=4, head_size=4, d_state=2)
        >>> weights = {name: value.numpy() for name, value in cell.state_dict().items()}
        >>> layer = ArbLayer({**weights, "norm_before": np.ones(4)}, groups=1)
        >>> stream, window = [arb(1)] * 4, [[arb(0)] * 3] * 12
        >>> found = layer.coefficients(stream, [[]] * 4, None, window)
        >>> all(0 < decay < 1 for decay in found.decays)
        True
    """

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
        self,
        found: Coefficients,
        h: Rows,
        place: tuple[int, int] | None,
        h_slopes: list[Rows] | None = None,
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
