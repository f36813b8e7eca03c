"""The states that words lead to, computed once more from the weights in float64: are those listed visited?

Nothing here is shared with what listed them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.certificates.certificate import RefusedError

Array = NDArray[np.float64]
Batch = dict[str, Array]  # per name the parts of the states of several sequences, ``[sequences, …]``

TOLERANCE = 1e-12
"""‖Φ(z) − z‖ / ‖z‖ at which a latent counts as the fixed point: some ten times what rounding leaves of it."""
MORE_ITERATIONS = 2
"""Times the model's own limit: who arrives at 1e-10 within the limit is at 1e-12 within 1.2 of it."""
MOST_MULTIPLICATIONS = 10**12
"""Multiplications all together, minutes on one core: strangers choose limit, sizes and words."""
OF_A_PASS, OF_A_STATE = 5 * 10**5, 32
"""The cost of the smallest pass, and of one entry of a state. The unit is a multiplication by a weight."""
FARTHEST = 1e-7
"""How far a state may lie from the one computed here, part by part relative to its largest entry: the
distance between float32 numbers, in which the model holds it. The producer's latents have residuals
of 1e-10 ‖z‖, which make differences of at most 2.5e-9 in the states of the stored runs (parity-small)."""


class Mamba2Layer:
    """A Mamba-2 cell from its arrays; the names are those of `implicit.cells.mamba2`."""

    def __init__(self, weights: Mapping[str, Array], groups: int) -> None:
        self.weights, self.groups = weights, groups
        self.inner, self.heads = weights["out_proj.weight"].shape[1], len(weights["A_log"])
        self.channels, self.window = weights["conv1d.weight"].shape[0], weights["conv1d.weight"].shape[2] - 1
        self.d_state = (self.channels - self.inner) // (2 * groups)

    def begin(self, sequences: int, index: int) -> Batch:
        """Return the zero state."""
        return {
            f"conv.{index}": np.zeros((sequences, self.channels, self.window)),
            f"ssm.{index}": np.zeros((sequences, self.inner, self.d_state)),
        }

    def __call__(self, u: Array, injection: Array | float, state: Batch, index: int) -> tuple[Array, Batch]:
        """Return what the layer adds to the stream, and its next state."""
        w, sequences = self.weights, len(u)
        p = u @ w["in_proj.weight"].T + injection
        gate, channels, raw = np.split(p, [self.inner, self.inner + self.channels], axis=1)
        window = np.concatenate([state[f"conv.{index}"], channels[:, :, None]], axis=2)
        convolved = silu((window * w["conv1d.weight"][:, 0]).sum(axis=2) + w["conv1d.bias"])
        shared = self.groups * self.d_state
        x, B, C = np.split(convolved, [self.inner, self.inner + shared], axis=1)
        B, C = (
            part.reshape(sequences, self.groups, self.d_state).repeat(self.inner // self.groups, axis=1)
            for part in (B, C)
        )
        step = np.logaddexp(0, raw + w["dt_bias"])
        decay = np.exp(-np.exp(w["A_log"]) * step)
        step, decay, skip = (part.repeat(self.inner // self.heads, axis=-1) for part in (step, decay, w["D"]))
        h = decay[:, :, None] * state[f"ssm.{index}"] + (step * x)[:, :, None] * B
        y = ((h * C).sum(axis=2) + skip * x) * silu(gate)
        y = rms(y.reshape(sequences, self.groups, -1)).reshape(sequences, -1) * w["norm.weight"]
        return y @ w["out_proj.weight"].T, {f"conv.{index}": window[:, :, 1:], f"ssm.{index}": h}


class DeltaNetLayer:
    """A DeltaNet cell from its arrays; the names are those of `implicit.cells.delta_rule`."""

    def __init__(self, weights: Mapping[str, Array], sizes: Mapping[str, Any]) -> None:
        self.weights, self.heads, self.key_size = weights, int(sizes["heads"]), int(sizes["key_size"])
        self.value_size = len(weights["norm.weight"])
        self.keys = self.heads * self.key_size
        self.channels = 2 * self.keys + self.heads * self.value_size
        self.taps = weights.get("convolution.weight", np.ones((self.channels, 1)))
        self.largest_beta = 2.0 if sizes.get("negative_eigenvalues") else 1.0

    def begin(self, sequences: int, index: int) -> Batch:
        """Return the zero state."""
        return {
            f"conv.{index}": np.zeros((sequences, self.channels, self.taps.shape[-1] - 1)),
            f"memory.{index}": np.zeros((sequences, self.heads, self.key_size, self.value_size)),
        }

    def __call__(self, u: Array, injection: Array | float, state: Batch, index: int) -> tuple[Array, Batch]:
        """Return what the layer adds to the stream, and its next state."""
        w, sequences = self.weights, len(u)
        channels, raw = np.split(u @ w["in_proj.weight"].T + injection, [self.channels], axis=1)
        window = np.concatenate([state[f"conv.{index}"], channels[:, :, None]], axis=2)
        convolved = silu((window * self.taps).sum(axis=2))
        q, k, v = np.split(convolved, [self.keys, 2 * self.keys], axis=1)
        q, k = (part.reshape(sequences, self.heads, self.key_size) for part in (q, k))
        q, k = (part / np.sqrt((part**2).sum(axis=2, keepdims=True) + 1e-6) for part in (q, k))
        v = v.reshape(sequences, self.heads, self.value_size)
        before = state[f"memory.{index}"]
        beta = self.largest_beta / (1 + np.exp(-raw))
        written = beta[:, :, None] * (v - np.einsum("bhkv,bhk->bhv", before, k))
        memory = before + k[:, :, :, None] * written[:, :, None, :]
        y = rms(np.einsum("bhkv,bhk->bhv", memory, q), 1e-5 * self.key_size) * w["norm.weight"]
        out = y.reshape(sequences, -1) @ w["out_proj.weight"].T
        return out, {f"conv.{index}": window[:, :, 1:], f"memory.{index}": memory}


class Replay:
    """The model in float64, from its weights: plain numpy, that shares nothing with what listed the states.

    Token by token from the zero state, every latent is iterated from zero by the model's damped step. The
    result is floating point, and not proved: it ties a certificate, which proves something of the states that
    it lists, to the words that its settings stand for.
    """

    def __init__(
        self, weights: Mapping[str, NDArray[np.floating[Any]]], sizes: Mapping[str, Any], model: str
    ) -> None:
        self.weights = {name: part.astype(np.float64) for name, part in weights.items()}
        self.implicit, self.residual = model != "mamba2", bool(sizes.get("residual", True))
        self.damping, self.d_model = float(sizes.get("damping", 1.0)), int(sizes["d_model"])
        self.limit = MORE_ITERATIONS * int(sizes.get("max_iterations", 1))
        self.layers: list[Mamba2Layer | DeltaNetLayer] = []
        for layer in range(int(sizes["layers"])):
            prefix = f"mixers.{layer}."
            own = {n[len(prefix) :]: part for n, part in self.weights.items() if n.startswith(prefix)}
            deltanet = model == "implicit-deltanet"
            self.layers.append(
                DeltaNetLayer(own, sizes) if deltanet else Mamba2Layer(own, int(sizes["groups"]))
            )
        self.work = 0
        begun = [layer.begin(1, index) for index, layer in enumerate(self.layers)]
        self.of_a_row = sum(part.size for part in self.weights.values()) + OF_A_STATE * sum(
            part.size for state in begun for part in state.values()
        )

    def states(self, words: Sequence[Sequence[int]]) -> list[Batch | None]:
        """Return the state after every word, None where the latent of one of its tokens does not settle."""
        wanted = {tuple(word) for word in words}
        inorder = sorted(wanted)  # a word stands right before those that it begins
        begins = [after[: len(word)] == word for word, after in pairwise(inorder)] + [False]
        longest = [word for word, on_the_way in zip(inorder, begins, strict=False) if not on_the_way]
        paths = np.arange(len(longest))
        arrived: dict[tuple[int, ...], Batch] = {}
        state: Batch = {}
        for index, layer in enumerate(self.layers):
            state |= layer.begin(len(paths), index)
        for position in range(max(map(len, longest), default=0) + 1):
            for row, path in enumerate(paths):
                if len(longest[path]) >= position and longest[path][:position] in wanted:
                    arrived[longest[path][:position]] = {name: part[row] for name, part in state.items()}
            going = np.array([len(longest[path]) > position for path in paths], dtype=bool)
            paths, state = paths[going], _rows(state, going)
            if not len(paths):
                break
            state, settled = self._read(np.array([longest[path][position] for path in paths]), state)
            paths, state = paths[settled], _rows(state, settled)
        return [arrived.get(tuple(word)) for word in words]

    def _read(self, tokens: NDArray[np.int64], state: Batch) -> tuple[Batch, NDArray[np.bool_]]:
        """The next state of every sequence, and whether its latent settled."""
        embedded = self.weights["embedding.weight"][tokens]
        if not self.implicit:
            return self._through(embedded, None, state)[1], np.ones(len(tokens), dtype=bool)
        u = rms(embedded) * self.weights["embedding_norm.weight"]
        injections = [u @ self.weights[f"injections.{layer}.weight"].T for layer in range(len(self.layers))]
        latents, settled = np.zeros((len(tokens), self.d_model)), np.zeros(len(tokens), dtype=bool)
        for _ in range(self.limit):
            going = np.flatnonzero(~settled)
            here = latents[going]
            image, _ = self._through(here, [part[going] for part in injections], _rows(state, going))
            image = rms(image) * self.weights["latent_norm.weight"]
            residual = np.linalg.norm(image - here, axis=1)
            done = residual <= TOLERANCE * np.linalg.norm(here, axis=1)
            latents[going] = np.where(done[:, None], here, here + self.damping * (image - here))
            settled[going] = done
            if settled.all():
                break
        return self._through(latents, injections, state)[1], settled

    def _through(
        self, stream: Array, injections: Sequence[Array] | None, state: Batch
    ) -> tuple[Array, Batch]:
        self.work += OF_A_PASS + len(stream) * self.of_a_row
        if self.work > MOST_MULTIPLICATIONS:
            raise RefusedError(
                "config.sizes", f"let words take more than {MOST_MULTIPLICATIONS} multiplications"
            )
        after: Batch = {}
        for index, layer in enumerate(self.layers):
            u = rms(stream) * self.weights[f"mixer_norms.{index}.weight"]
            out, following = layer(u, 0.0 if injections is None else injections[index], state, index)
            stream, after = stream + out if self.residual else out, {**after, **following}
        return stream, after


def check_state(listed: Mapping[str, Array], found: Mapping[str, Array], line: str) -> None:
    """Verify that a listed state is the one that a word leads to."""
    for name, part in found.items():
        if name not in listed or listed[name].size != part.size:
            raise RefusedError(line, f"does not hold {name} with {part.size} numbers")
    if set(listed) != set(found):
        raise RefusedError(line, "holds more than the parts of a state")
    for name, part in found.items():
        largest = np.abs(part).max(initial=0.0)
        if not np.abs(listed[name] - part.ravel()).max(initial=0.0) <= FARTHEST * largest:
            raise RefusedError(line, f"is farther than {FARTHEST:g} from the one that its word leads to")


def silu(x: Array) -> Array:
    """Return x / (1 + e^{−x}), without overflow."""
    return x * np.exp(-np.logaddexp(0, -x))


def rms(x: Array, epsilon: float = 1e-5) -> Array:
    """Return x over the root of its mean square, along the last axis."""
    normalised: Array = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon)
    return normalised


def _rows(state: Batch, rows: NDArray[Any]) -> Batch:
    return {name: part[rows] for name, part in state.items()}
