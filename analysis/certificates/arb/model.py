"""(Φ, G) of the stored models in FLINT's ball arithmetic: the layers of `arb_mamba2` joined together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from analysis.certificates.arb.mamba2 import (
    ArbLayer,
    Coefficients,
    Rows,
    Vector,
    apply,
    exact_matrix,
    exact_vector,
    rms_norm,
    scaled_to_unit,
)

State = Mapping[str, Any]
"""Per name the entries as nested lists of arb."""


class ArbModel:
    """(Φ, G) of a stored implicit-mamba2 or mamba2.

    Args:
        weights: the state dict as arrays.
        sizes: ``sizes`` of its configuration.

    Attributes:
        shapes: per name of the state how many channels and how many entries of each: the window first.
        blocks: the name of h of every layer.
        head: the matrix that decodes a latent.
        last_norm: the weights of the last norm of an implicit model.

    Example:
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> weights = {name: value.numpy() for name, value in ImplicitMamba2(config).state_dict().items()}
        >>> model = ArbModel(weights, config.model_dump())
        >>> model.shapes
        {'conv.0': (12, 3), 'ssm.0': (8, 2)}
        >>> state = model.state([arb(0)] * (12 * 3 + 8 * 2))
        >>> image, _, _ = model.evaluate(1, [arb(0)] * 4, state, None)
        >>> len(image), image[0].is_finite()
        (4, True)
    """

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
        """Return Φ, its derivatives along z and one entry of h per layer, and every layer's coefficients.

        Args:
            token: the token.
            z: the latent; empty for an explicit model.
            state: ``conv.<layer>`` and ``ssm.<layer>``, a row per channel each.
            sources: per layer the entry of h; None for no derivatives at all.
        """
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

        Args:
            token: the token.
            z: the latent.
            state: ``conv.0`` and ``ssm.0``, a row per channel each.
            directions: a row per entry of the state, the window first; a column per direction.

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
    """Return the entries of a state in the order in which `ArbModel.state` takes them.

    Example:
        >>> entries = entries_of({"conv.0": [[arb(1)], [arb(2)]], "ssm.0": [[arb(3), arb(4)]]})
        >>> [float(entry) for entry in entries]
        [1.0, 2.0, 3.0, 4.0]
    """
    return [entry for part in state.values() for row in part for entry in row]
