"""The Bayes filter of a probabilistic automaton with state reveals, as an implicit SSM and as a linear RNN.

| code            | symbol    | meaning                                                                      |
|-----------------|-----------|------------------------------------------------------------------------------|
| ``matrices``    | M_σ       | ``[actions, n, n]``; column q is the distribution after q                    |
| ``readings``    | o(q)      | ``[reveals, n]``; the number of the value that a reveal shows in state q     |
| ``operators``   | N_y       | ``[observations, n, n]``: every M_σ, then D_ρ for each value of each reveal  |

The observation at a token is y: an action, or a reveal with the value ρ it shows. D_ρ = diag(1[o(q) = ρ]).

*Exact filter:* b ← N_y b / 1ᵀN_y b. *Linear filter:* b̃ ← N_y b̃ without the division; then b̃ =
Pr(reveals so far) · b, so that every reveal that is not certain makes 1ᵀb̃ smaller, and it leaves the
range of any floating-point format after a number of reveals proportional to that range. The division is
the non-linear step that a linear RNN lacks.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from automata.errors import InputError
from automata.monoids.cayley import IntArray, float_array, integer_array
from theory.constructions.implicit_ssm import ImplicitSSM, require_numbers, ssm_of_map


@dataclass(frozen=True, eq=False)
class BayesFilter:
    """The exact filter and its linear rival, from the arrays of a probabilistic automaton.

    InputError if what should be numbers is not, or the shapes do not fit together.

    Args:
        initial: b₀, shape ``[n]``.
        matrices: M_σ, shape ``[actions, n, n]``; column q is the distribution after q.
        readings: o, shape ``[reveals, n]``, values 0, 1, 2, … of each reveal.

    Example:
        A coin that a flip turns over with probability 0.9; looking shows it.

        >>> coin = BayesFilter([1.0, 0.0], [[[0.1, 0.9], [0.9, 0.1]]], [[0, 1]])
        >>> observations = coin.observations([[0, 0, 1]], [[-1, -1, 1]])
        >>> observations.tolist()
        [[0, 0, 2]]
        >>> [[round(p, 12) for p in b] for b in coin.ssm().run(observations)[0].tolist()]
        [[0.1, 0.9], [0.82, 0.18], [0.0, 1.0]]
    """

    initial: Tensor
    operators: Tensor
    actions: int
    offsets: IntArray
    """The number of the observation that stands for value 0 of each reveal."""

    def __init__(self, initial: ArrayLike, matrices: ArrayLike, readings: ArrayLike) -> None:
        start, moves = (
            float_array(field, given, "numbers in rows of one length")
            for field, given in (("initial", initial), ("matrices", matrices))
        )
        values = integer_array("readings", readings)
        size = start.size
        if start.ndim != 1 or moves.shape[1:] != (size, size) or values.ndim != 2 or values.shape[1] != size:
            raise InputError(
                f"initial has shape {list(start.shape)}, matrices {list(moves.shape)} and readings "
                f"{list(values.shape)}; for {size} states give [{size}], [actions, {size}, {size}] and "
                f"[reveals, {size}]"
            )
        for field, given in (("initial", start), ("matrices", moves)):
            sums = given.sum(axis=max(given.ndim - 2, 0))
            if not ((given >= 0).all() and np.allclose(sums, 1, rtol=0, atol=1e-9)):
                raise InputError(f"{field} has a column that is no distribution; give shares that sum to 1")
        if values.min(initial=0) < 0:
            raise InputError(f"readings holds {values.min()}; give 0, 1, 2, … for the values of a reveal")
        counts = [int(reading.max()) + 1 for reading in values]
        projections = [
            np.diag((reading == value).astype(np.float64))
            for reading, count in zip(values, counts, strict=True)
            for value in range(count)
        ]
        offsets = len(moves) + np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        operators = torch.from_numpy(np.stack([*moves, *projections]))
        vars(self).update(initial=torch.from_numpy(start), operators=operators)
        vars(self).update(actions=len(moves), offsets=offsets)

    def observations(self, tokens: ArrayLike, values: ArrayLike) -> Tensor:
        """Return the observation numbers of tokens and the values they show, not read at actions, ``[B, L]``.

        InputError if a token does not exist, or a value is not one of its reveal.
        """
        given, shown = integer_array("tokens", tokens), integer_array("values", values)
        reveals = len(self.offsets) - 1
        if given.shape != shown.shape or given.min() < 0 or given.max() >= self.actions + reveals:
            raise InputError(
                f"tokens has shape {list(given.shape)} and range {given.min()} … {given.max()}, values has "
                f"shape {list(shown.shape)}; give one shape, and tokens in 0 … {self.actions + reveals - 1}"
            )
        reveal = np.maximum(given - self.actions, 0)
        numbers = np.where(given < self.actions, given, self.offsets[reveal] + shown)
        outside = (given >= self.actions) & ((shown < 0) | (numbers >= self.offsets[reveal + 1]))
        if outside.any():
            where = tuple(np.argwhere(outside)[0].tolist())
            raise InputError(
                f"values holds {shown[where]} at position {where[-1]}; give a value that the reveal shows"
            )
        return torch.from_numpy(numbers)

    def update(self, beliefs: Tensor, observations: Tensor) -> Tensor:
        """Return N_y b / 1ᵀN_y b, shape ``[..., n]``; zeros, which is no belief, where 1ᵀN_y b = 0."""
        moved = self._moved(beliefs, observations)
        mass = moved.sum(dim=-1, keepdim=True)
        return moved / torch.where(mass > 0, mass, 1.0)

    def ssm(self, decay: float = 0.0625) -> ImplicitSSM:
        """Return the implicit SSM whose state is the exact belief: u(z, y) = N_y r(z) / 1ᵀN_y r(z) − λ r(z).

        r clamps entries to [0, 1]. The fixed point carries a rounding error of about 10⁻¹⁶ in every
        entry, which a reveal of predictive probability m divides by m: traces with reveals that are less
        likely than 10⁻¹⁰, say, need the logarithmic filter of ``automata.probabilistic.pfsa``, as do
        impossible ones.
        """
        return ssm_of_map(
            self.update,
            self.initial,
            decay,
            retraction=lambda latents: latents.clamp(0, 1),
            check_inputs=require_numbers("observations", len(self.operators)),
        )

    def linear(self, observations: Tensor) -> Tensor:
        """Return b̃ after every token, shape ``[B, L, n]``: what a linear RNN with these matrices computes."""
        current, states = self.initial.expand(len(observations), -1), []
        for position in range(observations.shape[1]):
            current = self._moved(current, observations[:, position])
            states.append(current)
        return torch.stack(states, dim=1)

    def _moved(self, beliefs: Tensor, observations: Tensor) -> Tensor:
        return (self.operators[observations] @ beliefs[..., None])[..., 0]
