"""One Mamba-2 layer, explicit or inside a fixed point, in mpmath at 40 digits: what is true of a small model.

The names are those of `implicit.cells.mamba2`; formulas are written from the paper's, not from a checker's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

mp.dps = 40
STEP = mpf(10) ** -20  # the step of forward differences, whose error is some 10⁻²⁰
EPSILON = mpf(1e-5)
MOST_STEPS = 15
ITERATIONS = 200
SETTLED = mpf(10) ** -35  # the residual at which a fixed point is found

Vector = list[Any]
State = dict[str, list[Vector]]  # ``conv.0`` and ``ssm.0``, a row per channel


class ExactModel:
    """(Φ, G) of a model of one layer and one group of heads."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], sizes: Mapping[str, Any]) -> None:
        self.weights = {name: _exact(array) for name, array in weights.items()}
        self.implicit, self.damping = "latent_norm.weight" in weights, mpf(float(sizes.get("damping", 1.0)))
        self.residual, self.size = bool(sizes.get("residual", True)), int(sizes["d_model"])
        own = {name[9:]: array for name, array in self.weights.items() if name.startswith("mixers.0.")}
        self.inner, self.heads = len(own["D"]) * int(sizes["head_size"]), len(own["D"])
        self.d_state, self.window = int(sizes["d_state"]), int(sizes["d_conv"]) - 1
        self.own = own
        self._slopes: dict[Any, Any] = {}

    def zero_state(self) -> State:
        channels = self.inner + 2 * self.d_state
        return {
            "conv.0": [[mpf(0)] * self.window for _ in range(channels)],
            "ssm.0": [[mpf(0)] * self.d_state for _ in range(self.inner)],
        }

    def state_of(self, parts: Mapping[str, Any]) -> State:
        """Return a state from the entries of its parts, row by row."""
        found: State = {}
        for name, columns in (("conv.0", self.window), ("ssm.0", self.d_state)):
            numbers = [mpf(number) for number in parts[name]]
            rows = self.inner + 2 * self.d_state if name == "conv.0" else self.inner
            found[name] = [numbers[row * columns : (row + 1) * columns] for row in range(rows)]
        return found

    def advance(self, token: int, z: Vector, state: State) -> tuple[Vector, State]:
        """Return Φ(z; s) and the next state; an explicit model reads no z."""
        own, inner, d_state = self.own, self.inner, self.d_state
        embedded = self.weights["embedding.weight"][token]
        stream = z if self.implicit else embedded
        u = _norm(stream, self.weights["mixer_norms.0.weight"])
        p = [mp.fdot(row, u) for row in own["in_proj.weight"]]
        if self.implicit:
            entering = _norm(embedded, self.weights["embedding_norm.weight"])
            p = [
                a + mp.fdot(row, entering)
                for a, row in zip(p, self.weights["injections.0.weight"], strict=True)
            ]
        channels = p[inner : 2 * inner + 2 * d_state]
        window = [[*row, new] for row, new in zip(state["conv.0"], channels, strict=True)]
        mixed = [
            _silu(mp.fdot(taps[0], row) + bias)
            for taps, row, bias in zip(own["conv1d.weight"], window, own["conv1d.bias"], strict=True)
        ]
        x, B, C = mixed[:inner], mixed[inner : inner + d_state], mixed[inner + d_state :]
        h: list[Vector] = []
        y: Vector = []
        for channel in range(inner):
            head = channel * self.heads // inner
            dt = mp.log1p(mp.exp(p[2 * inner + 2 * d_state + head] + own["dt_bias"][head]))
            decay = mp.exp(-mp.exp(own["A_log"][head]) * dt)
            row = [decay * e + dt * x[channel] * b for e, b in zip(state["ssm.0"][channel], B, strict=True)]
            h.append(row)
            y.append((mp.fdot(row, C) + own["D"][head] * x[channel]) * _silu(p[channel]))
        v = [mp.fdot(row, _norm(y, own["norm.weight"])) for row in own["out_proj.weight"]]
        out = [a + b for a, b in zip(stream, v, strict=True)] if self.residual else v
        following = {"conv.0": [row[1:] for row in window], "ssm.0": h}
        return (_norm(out, self.weights["latent_norm.weight"]) if self.implicit else out), following

    def decays(self, token: int, state: State) -> Vector:
        one = {**state, "ssm.0": [[mpf(1)] * self.d_state for _ in range(self.inner)]}
        none = {**state, "ssm.0": [[mpf(0)] * self.d_state for _ in range(self.inner)]}
        after, before = (self.advance(token, [], s)[1]["ssm.0"] for s in (one, none))
        per_head = self.inner // self.heads
        return [after[head * per_head][0] - before[head * per_head][0] for head in range(self.heads)]

    def slopes(self, token: int, z: Vector, state: State) -> Any:
        key = token, tuple(z), tuple(entries_of(state))
        if key not in self._slopes:
            image, _ = self.advance(token, z, state)
            columns = []
            for j in range(self.size):
                ahead, _ = self.advance(token, [e + STEP * (i == j) for i, e in enumerate(z)], state)
                columns.append([(a - b) / STEP for a, b in zip(ahead, image, strict=True)])
            self._slopes[key] = mp.matrix(columns).T
        return self._slopes[key]

    def fixed_point(self, token: int, state: State, start: Vector | None = None) -> Vector:
        """Return the fixed point near a start, by Newton steps; that of the iteration from zero if None."""
        z = start or [mpf(0)] * self.size
        for _ in range(0 if start else ITERATIONS):
            image, _ = self.advance(token, z, state)
            z = [a + self.damping * (b - a) for a, b in zip(z, image, strict=True)]
        last = mp.inf
        for _ in range(MOST_STEPS):
            image, _ = self.advance(token, z, state)
            residual = mp.matrix([b - a for a, b in zip(z, image, strict=True)])
            size = mp.norm(residual, mp.inf)
            if size > last / 1000:  # the slopes are those of too far away
                inverse = None
            if last == mp.inf or inverse is None:
                inverse = (mp.eye(self.size) - self.slopes(token, z, state)) ** -1
            z, last = [a + b for a, b in zip(z, inverse * residual, strict=True)], size
            if size < SETTLED:
                break
        return z

    def entry(self, token: int, z: Vector, state: State, place: Sequence[int]) -> Any:
        """Return the entry (row, column) of ∂h'/∂h at a fixed point, by the implicit function theorem."""
        row, column = place

        def moved() -> State:
            h = [list(entries) for entries in state["ssm.0"]]
            h[column // self.d_state][column % self.d_state] += STEP
            return {**state, "ssm.0": h}

        (here, before), (ahead, after) = (self.advance(token, z, s) for s in (state, moved()))
        channel, n = divmod(row, self.d_state)
        direct = (after["ssm.0"][channel][n] - before["ssm.0"][channel][n]) / STEP
        source = mp.matrix([(a - b) / STEP for a, b in zip(ahead, here, strict=True)])
        response = mp.lu_solve(mp.eye(self.size) - self.slopes(token, z, state), source)
        _, beside = self.advance(token, [e + STEP * r for e, r in zip(z, response, strict=True)], state)
        return direct + (beside["ssm.0"][channel][n] - before["ssm.0"][channel][n]) / STEP

    def logits(self, z: Vector) -> Vector:
        rows = zip(self.weights["head.weight"], self.weights["head.bias"], strict=True)
        return [mp.fdot(row, z) + bias for row, bias in rows]


def entries_of(state: State) -> Vector:
    return [entry for name in ("conv.0", "ssm.0") for row in state[name] for entry in row]


def distance(one: Iterable[Any], other: Iterable[Any]) -> Any:
    """Return the largest difference of two entries; what is no mpf is taken for a float64."""
    return max(
        abs(mpf(a) - mpf(float(b)) if not isinstance(b, mpf) else a - b)
        for a, b in zip(one, other, strict=True)
    )


def _exact(array: NDArray[Any]) -> Any:
    if array.ndim == 1:
        return [mpf(float(number)) for number in array]
    return [_exact(row) for row in np.asarray(array)]


def _norm(x: Vector, weight: Vector) -> Vector:
    r = 1 / mp.sqrt(mp.fdot(x, x) / len(x) + EPSILON)
    return [e * r * w for e, w in zip(x, weight, strict=True)]


def _silu(x: Any) -> Any:
    return x / (1 + mp.exp(-x))
