"""The norm of the recurrent state along sequences, and the rate at which the mass of the exact filter decays.

The linear filter b̃ ← N_y b̃, which leaves out the division of Bayes' rule, has the mass 1ᵀb̃ = Pr(reveals so
far). Its logarithm falls by −log Pr(value | tokens before) at every reveal, and a linear model that carries
b̃ in its state has a norm that falls as fast: within a factor of √n, for 1ᵀb̃/√n ≤ ‖b̃‖ ≤ 1ᵀb̃.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from analysis.belief.exact import ExactSequences
from analysis.belief.reading import Block
from analysis.belief.statistics import Rate, doubling_edges, estimate, fitted_rate
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.visited_states import entries
from implicit.models.interface import SequenceModel


@dataclass(frozen=True, eq=False)
class Norms:
    """Norms of the recurrent state after every token, layer by layer.

    Example:
        >>> halves = Norms((("h",),), True, 0.5 ** np.arange(1, 65.0) * np.ones((1, 3, 1)))
        >>> round(halves.rates()[0].per_token, 6)
        -0.693147
    """

    layers: tuple[tuple[str, ...], ...]  # the names of the parts of the state that make up each layer
    linear: bool  # whether the model says that each layer is linear in its own state
    norms: FloatArray  # Euclidean, ``[layers, sequences, length]``; NaN at padding

    @classmethod
    def empty(cls, model: SequenceModel, exact: ExactSequences) -> "Norms":
        """Return norms of which none is known yet; the model's state has a constant size."""
        layers = model.transitions(torch.from_numpy(exact.tokens[:1, :1]).to(model.device)).layer_states
        return cls(layers, model.linear_in_state, np.full((len(layers), *exact.tokens.shape), np.nan))

    def add(self, block: Block) -> None:
        """Enter the states of a block."""
        assert block.states is not None
        for number, names in enumerate(self.layers):
            visited = entries(block.states, names, leading=2)[:, 1:]
            found = torch.linalg.vector_norm(visited, dim=-1, dtype=torch.float64)
            self.norms[number, block.rows, block.first : block.after] = found.cpu().numpy()

    def rates(self, confidence: float = 0.95) -> tuple[Rate, ...]:
        """Return the fitted rate of each layer; sequences are followed until their norm is 0 or overflows."""
        with np.errstate(divide="ignore"):
            return tuple(fitted_rate(np.log(layer), confidence) for layer in self.norms)

    def vanished(self) -> tuple[int | None, ...]:
        """Return for each layer after how many tokens the first sequence had a norm of 0 or none."""
        ends = []
        for layer in self.norms:
            real = ~np.isnan(layer).all(axis=0)
            gone = np.flatnonzero(((layer == 0) | np.isinf(layer)).any(axis=0) & real)
            ends.append(int(gone[0]) + 1 if gone.size else None)
        return tuple(ends)

    def quantiles(self, positions: IntArray) -> FloatArray:
        """Return the 5%, 50% and 95% quantiles over the sequences, ``[layers, 3, positions]``."""
        found: FloatArray = np.nanquantile(self.norms[:, :, positions], [0.05, 0.5, 0.95], axis=1)
        return found.swapaxes(0, 1)

    def numbers(self, confidence: float) -> dict[str, Any]:
        """Return everything for JSON."""
        positions = shown_positions(self.norms.shape[-1])
        return {
            "linear_in_state": self.linear,
            "tokens": positions + 1,
            "layers": [
                {
                    "parts": list(names),
                    "norm": dict(zip(("0.05", "0.5", "0.95"), quantiles, strict=True)),
                    "rate_per_token": vars(rate),
                    "vanished_after": end,
                }
                for names, quantiles, rate, end in zip(
                    self.layers,
                    self.quantiles(positions),
                    self.rates(confidence),
                    self.vanished(),
                    strict=True,
                )
            ],
        }


@dataclass(frozen=True)
class MassRates:
    """The rate at which the mass of the exact linear filter decays, per token, in nats."""

    mean: Rate  # mean of log Pr(what is revealed | tokens before) over all tokens
    fitted: Rate  # as the rates of norms are fitted, so that the two can be compared
    per_reveal: Rate  # mean over the tokens at which something is revealed


def mass_rates(exact: ExactSequences, confidence: float = 0.95) -> MassRates:
    """Return the rates of the exact filter on sequences."""
    rows, columns = np.nonzero(~np.isnan(exact.log_evidence))
    evidence = exact.log_evidence[rows, columns]
    shown = np.zeros(exact.tokens.shape, np.bool_)
    for chosen, real in exact.by_length:
        shown[chosen, :real] = exact.task.revealed(exact.tokens[chosen, :real])
    told = shown[rows, columns]
    means = [estimate(evidence, rows, confidence), estimate(evidence[told], rows[told], confidence)]
    every, per_reveal = (Rate(found.mean, found.low, found.high, found.sequences) for found in means)
    return MassRates(every, fitted_rate(exact.log_evidence.cumsum(axis=1), confidence), per_reveal)


def shown_positions(length: int) -> IntArray:
    """Return the positions at which curves along sequences are shown: four to each doubling.

    Example:
        >>> shown_positions(16).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15]
    """
    return np.unique([*doubling_edges(length, 4)[:-1], length]) - 1
