"""The directions along which errors are measured, drawn so that no transition can know them beforehand.

An error matrix E is estimated by the root mean square of ‖E r‖ over k directions r. Up to :data:`PROBES`
entries these are all columns, √n times the unit vectors: the estimate is ‖E‖_F itself. Beyond, they are
Gaussian, with E ‖E r‖² = ‖E‖_F², and

    P(estimate ≤ t ‖E‖_F) ≤ (t² e^{1 − t²})^{k/2}    for every E and every 0 < t < 1 .

Proof. With the eigenvalues λ of EᵀE / ‖E‖_F², which sum to 1, k times the squared ratio is X = Σ λ_i Y_i with
independent Y_i of law χ²_k, and the mean of e^{−sX} is Π (1 + 2 s λ_i)^{−k/2} ≤ (1 + 2 s)^{−k/2}. Markov's
inequality for X ≤ k t², at 1 + 2 s = 1/t², gives the bound. ∎

With ±1 entries there is none: E = e_1 (e_2 − e_3)ᵀ is missed by each with probability ½. The bound asks that
E does not depend on the directions, so the seed comes from the operating system, unless it is given.
"""

import math
import secrets
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from theory.fixed_point import ERROR_MARGIN

PROBES = 8
"""Directions per error estimate; all of them for up to this many entries."""


def miss_probability(ratio: float = 1 / ERROR_MARGIN, probes: int = PROBES) -> float:
    """Return the bound on the probability that an estimate is at most ``ratio`` times the error."""
    return (ratio**2 * math.exp(1 - ratio**2)) ** (probes / 2)


@dataclass(frozen=True)
class Probes:
    """A seed, and the directions drawn from it: the same for the same purpose."""

    seed: int = field(default_factory=lambda: secrets.randbits(63))  # unpredictable if not given

    def directions(self, size: int, like: Tensor, purpose: int = 0) -> Tensor:
        """Return directions r whose ‖E r‖² have the mean ‖E‖_F², shape ``[k, size]``, like another tensor."""
        if size <= PROBES:
            return math.sqrt(size) * torch.eye(size, dtype=like.dtype, device=like.device)
        return self.gaussian(PROBES, size, like, purpose)

    def gaussian(self, count: int, size: int, like: Tensor, purpose: int = 0) -> Tensor:
        """Return vectors of independent standard normal numbers, shape ``[count, size]``."""
        state = np.random.SeedSequence([self.seed, purpose]).generate_state(2)
        generator = torch.Generator().manual_seed(int(state[0]) << 31 ^ int(state[1]))
        return torch.randn(count, size, generator=generator, dtype=torch.float64).to(like)


def root_mean_square(deviations: Tensor) -> float:
    """Return the estimate of ‖E‖_F from the rows E r."""
    return deviations.norm().item() / math.sqrt(len(deviations))
