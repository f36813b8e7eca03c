"""The implicit DeltaNet once more, in FLINT's balls, from the stored weights: the checker's evaluation.

Nothing here is shared with what made the certificate, which runs the model's own code. Derivatives are worked
out by hand, and the new memory S' is formed for no output. With u the normalised stream, per head,

    p = W_in u + injection         (q̂, k̂, v) = silu(Σ taps · window + tap p)
    q, k = q̂, k̂ / √(Σ x² + ε)      c = β (v − Sᵀ k),  β = σ(p_β), times 2 with negative eigenvalues
    S' = S + k cᵀ                  y = S'ᵀ q = Sᵀ q + (k · q) c
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
    sigmoid,
    silu,
    times,
)
from analysis.certificates.arb.mamba2 import ArbModel, State

UNIT_EPSILON = arb(1e-6)
"""ε of the unit norm: the float64 number 1e-6."""


def scaled(x: Vector, slopes: Rows, divisor: int, epsilon: arb) -> tuple[Vector, Rows]:
    """Return y = x r with r = (Σ x² / n + ε)^{−1/2}, and dy = r (dx − x r² (xᵀ dx) / n)."""
    r = (sum((e * e for e in x), arb(0)) / divisor + epsilon).rsqrt()
    (inner,) = times(arb_mat(1, len(x), x), slopes)
    common = [c * r**2 / divisor for c in inner]
    return [e * r for e in x], [
        [r * (d - e * c) for d, c in zip(row, common, strict=True)] for e, row in zip(x, slopes, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Written:
    """What S' = S + k cᵀ is made of in every head, with derivatives.

    Attributes:
        k: unit keys, ``[heads][key_size]``.
        c: what is written there, ``[heads][value_size]``.
    """

    k: list[tuple[Vector, Rows]]
    c: list[tuple[Vector, Rows]]


class DeltaLayer:
    """One DeltaNet cell with the norm before it."""

    def __init__(self, weights: Mapping[str, NDArray[np.floating[Any]]], sizes: Mapping[str, Any]) -> None:
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

    def output(
        self,
        stream: tuple[Vector, Rows],
        injection: Vector,
        window: Rows,
        memory: Rows,
        place: tuple[int, int] | None,
    ) -> tuple[tuple[Vector, Rows], Written]:
        """Return what the layer adds to the stream, and what it writes."""
        u, du = rms_norm(*stream, self.norm_before)
        p = [a + b for a, b in zip(apply(self.in_proj, u), injection, strict=True)]
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
            dkq = [a + b for a, b in zip(left, right, strict=True)]
            out = [a + kq * e for a, e in zip(read, c, strict=True)]
            dout = [
                [d + e * f + kq * g for d, f, g in zip(rates, dkq, gains, strict=True)]
                for e, rates, gains in zip(c, dread, dc, strict=True)
            ]
            out, dout = scaled(out, dout, self.value_size, self.epsilon)
            y += [a * b for a, b in zip(out, self.norm, strict=True)]
            dy += [[b * d for d in rates] for b, rates in zip(self.norm, dout, strict=True)]
            found.k.append((k, dk))
            found.c.append((c, dc))
        return (apply(self.out_proj, y), times(self.out_proj, dy)), found


class ArbDeltaNet(ArbModel):
    """Φ and the update of the memories of a stored implicit-deltanet without MLPs."""

    block = "memory"

    def _make_layers(
        self, weights: Mapping[str, NDArray[np.floating[Any]]], sizes: Mapping[str, Any]
    ) -> dict[str, tuple[int, int]]:
        self.delta_layers = [
            DeltaLayer(self.layer_weights(weights, layer), sizes) for layer in range(int(sizes["layers"]))
        ]
        shapes = {}
        for index, layer in enumerate(self.delta_layers):
            shapes[f"conv.{index}"] = (layer.channels, len(layer.taps[0]) - 1)
            shapes[f"memory.{index}"] = (layer.heads * layer.key_size, layer.value_size)
        return shapes

    def evaluate(
        self, token: int, z: Vector, state: State, sources: Sequence[int] | None
    ) -> tuple[Vector, Rows, list[Any]]:
        """Return Φ, its derivatives along z and one entry of S per layer, and what every layer writes."""
        columns = 0 if sources is None else self.size + len(self.delta_layers)
        stream, slopes = z, [[arb(int(i == j)) for j in range(columns)] for i in range(self.size)]
        found = []
        for index, layer in enumerate(self.delta_layers):
            injection = self._injections[token][index]
            assert injection is not None
            place = None if sources is None else (sources[index], self.size + index)
            parts = state[f"conv.{index}"], state[f"memory.{index}"]
            (v, dv), here = layer.output((stream, slopes), injection, *parts, place)
            if self.residual:
                v = [a + b for a, b in zip(stream, v, strict=True)]
                dv = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(slopes, dv, strict=True)]
            stream, slopes = v, dv
            found.append(here)
        stream, slopes = rms_norm(stream, slopes, self.last_norm)
        return stream, slopes, found

    def image(self, token: int, z: Vector, state: State) -> Vector:
        """Return Φ alone."""
        return self.evaluate(token, z, state, None)[0]

    def entry_rates(
        self,
        found: Sequence[Any],
        index: int,
        place: tuple[int, int],
        state: State,  # noqa: ARG002
    ) -> Vector:
        """Return the derivatives of entry ``row`` of S' along z and along entry ``column`` of S."""
        layer, here = self.delta_layers[index], found[index]
        row, column = place
        key, j = divmod(row, layer.value_size)
        head, i = divmod(key, layer.key_size)
        (k, dk), (c, dc) = here.k[head], here.c[head]
        rates = [a * c[j] + k[i] * b for a, b in zip(dk[i], dc[j], strict=True)]
        if row == column:
            rates[self.size + index] += 1
        return rates
