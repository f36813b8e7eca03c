"""Predictions of a model against the exact posterior, at every place where something is asked.

| code        | symbol    | meaning, at a place                                                        |
|-------------|-----------|----------------------------------------------------------------------------|
| ``answers`` | p         | Pr(answer | tokens so far), from the exact filter                          |
|             | q         | the model's softmax                                                        |
| ``kl``      | KL(p‖q)   | Σ p log(p/q), in nats: what the model loses in expectation, against p      |
| ``excess``  |           | log p(a) − log q(a) for the answer a that was drawn; its expectation is KL |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.belief.exact import NEVER, ExactSequences
from analysis.belief.statistics import Bins, Estimate, binned, doubling_edges
from analysis.framework.arrays import FloatArray, IntArray
from implicit.models.interface import answers_of


def divergence(exact: FloatArray, log_predicted: FloatArray) -> FloatArray:
    """Return KL(exact ‖ predicted) in nats; infinite where a possible answer has q = 0."""
    logs = np.log(exact, out=np.zeros_like(exact), where=exact > 0)
    gaps = np.subtract(logs, log_predicted, out=np.zeros_like(exact), where=exact > 0)
    return np.asarray((exact * gaps).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions at the places of `ExactSequences`; all arrays are ``[places]``."""

    exact: ExactSequences
    kl: FloatArray  # KL(p‖q), in nats
    excess: FloatArray  # log p(a) − log q(a) of the answer a
    log_loss: FloatArray  # −log q(a), in nats
    right: NDArray[np.bool_]  # whether the likeliest answer of the model is the answer

    @classmethod
    def empty(cls, exact: ExactSequences) -> "Predictions":
        """Return predictions of which none is known yet."""
        places = len(exact.rows)
        kl, excess, log_loss = np.full((3, places), np.nan)
        return cls(exact, kl, excess, log_loss, np.zeros(places, np.bool_))

    def add(self, places: IntArray, logits: Tensor) -> None:
        """Enter what the model says at some places.

        ``logits`` are ``[places, output_size]``.
        """
        said = torch.log_softmax(logits.double(), dim=-1).cpu().numpy()
        exact, targets = self.exact.answers[places], self.exact.targets[places]
        each = np.arange(len(places))
        self.kl[places] = divergence(exact, said)
        self.log_loss[places] = -said[each, targets]
        self.excess[places] = np.log(exact[each, targets]) - said[each, targets]
        self.right[places] = answers_of(logits).cpu().numpy() == targets

    @property
    def best(self) -> FloatArray:
        """The expected accuracy of the best answer, max p, ``[places]``: the mean of it is Bayes' ceiling."""
        return np.asarray(self.exact.answers.max(axis=-1))

    @property
    def entropy(self) -> FloatArray:
        """The expected log loss of the exact filter, in nats, ``[places]``."""
        answers = self.exact.answers
        return -np.asarray((answers * np.log(answers, out=np.zeros_like(answers), where=answers > 0)).sum(-1))

    def estimate(
        self, quantity: str, lengths: Sequence[int], confidence: float = 0.95
    ) -> dict[int, Estimate]:
        """Return the mean of a quantity from one length to the next, by the length at which it ends.

        ``quantity`` is the name of an attribute.
        """
        bins = binned(
            np.asarray(getattr(self, quantity), dtype=np.float64),
            self.exact.rows,
            self.exact.columns,
            [0, *lengths],
            confidence,
        )
        return dict(zip(lengths, bins.found, strict=True))

    def by_position(self, confidence: float = 0.95) -> Bins:
        """Return KL by the number of tokens read, two bins to each doubling."""
        read = self.exact.columns + 1
        return binned(self.kl, self.exact.rows, read, doubling_edges(int(read.max()), 2), confidence)

    def since_full_reveal(self, confidence: float = 0.95) -> dict[str, Bins]:
        """Return KL by the tokens and by the reveals since the last full reveal; none where there was none.

        A bin of reveals is the number of them plus 1, so that 0 has a place on a logarithmic axis.
        """
        known = self.exact.tokens_since != NEVER
        found = {}
        for name, passed in (
            ("tokens", self.exact.tokens_since[known]),
            ("reveals", self.exact.reveals_since[known] + 1),
        ):
            if passed.size:
                edges = doubling_edges(int(passed.max()))
                found[name] = binned(self.kl[known], self.exact.rows[known], passed, edges, confidence)
        return found

    def numbers(self, lengths: Sequence[int], confidence: float) -> dict[str, Any]:
        """Return everything for JSON."""
        quantities = {
            "kl": "kl",
            "accuracy": "right",
            "bayes_accuracy": "best",
            "log_loss": "log_loss",
            "bayes_log_loss": "entropy",
            "excess_log_loss": "excess",
        }
        by_length = {
            name: self.estimate(quantity, lengths, confidence) for name, quantity in quantities.items()
        }
        since = self.since_full_reveal(confidence)
        return {
            "by_length": {
                length: {name: vars(found[length]) for name, found in by_length.items()} for length in lengths
            },
            "kl_by_position": bins_numbers(self.by_position(confidence)),
            "kl_by_tokens_since_full_reveal": bins_numbers(since.get("tokens")),
            "kl_by_reveals_since_full_reveal": bins_numbers(since.get("reveals"), shift=1),
        }


def bins_numbers(bins: Bins | None, shift: int = 0) -> list[dict[str, Any]] | None:
    """Return bins for JSON, those without a place left out.

    ``shift`` was added to the quantity for its axis.
    """
    if bins is None:
        return None
    return [
        {"from": int(low) - shift, "to": int(high) - shift, **vars(found)}
        for low, high, found in zip(bins.low, bins.high, bins.found, strict=True)
        if found.places
    ]
