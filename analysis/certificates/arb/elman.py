"""The Elman network once more, in FLINT's balls, from the stored weights: h' = tanh(W e(x) + b + U h + c).

Over an ellipsoid {m + A u : ‖u‖₂ ≤ 1} entry i of the argument lies within ‖(U A)_i‖₂ of that at m, and the
derivative of h' along u is diag(1 − tanh²) U A there.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.balls import Vector, apply, exact_matrix, exact_vector, norm_bound

WEIGHTS = frozenset(
    f"{name}"
    for name in (
        "embedding.weight",
        "rnn.weight_ih_l0",
        "rnn.weight_hh_l0",
        "rnn.bias_ih_l0",
        "rnn.bias_hh_l0",
        "head.weight",
        "head.bias",
    )
)
"""All that a network of one layer has."""


class ArbElman:
    """The step and the logits.

    Args:
        weights: the state dict as arrays.

    Example:
        >>> from implicit.models.elman import Elman
        >>> from implicit.models.torch_rnn import TorchRNNConfig
        >>> model = Elman(TorchRNNConfig(vocabulary_size=2, output_size=2, d_model=3))
        >>> weights = {name: value.numpy() for name, value in model.state_dict().items()}
        >>> zero = [arb(0)] * 3
        >>> after, slopes = ArbElman(weights).step(1, zero, arb_mat(3, 3))
        >>> all(abs(entry) < 1 for entry in after), slopes == arb_mat(3, 3)
        (True, True)
    """

    def __init__(self, weights: Mapping[str, NDArray[np.floating[Any]]]) -> None:
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
        middle = [a + b for a, b in zip(self._read[token], apply(self.hidden, centre), strict=True)]
        slopes = []
        for number, row in zip(middle, along.tolist(), strict=True):
            bent = (number + arb(0, norm_bound(row))).tanh()
            slopes.append([(1 - bent) * (1 + bent) * entry for entry in row])
        return [number.tanh() for number in middle], arb_mat(slopes)

    def logits(self, state: Vector) -> Vector:
        """Return what a state is read as."""
        return [a + b for a, b in zip(apply(self.head, state), self._head_bias, strict=True)]
