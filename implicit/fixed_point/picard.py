"""Damped Picard iteration, the solver of the papers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.checks import check_number
from automata.errors import InputError


@dataclass(frozen=True)
class DampedPicard:
    """z ← (1 − τ) z + τ Φ(z).

    Attributes:
        damping: τ in (0, 1]; 1 is the plain iteration.

    Source:
        Schöne et al. 2025, arXiv 2502.07827; their code uses τ = 0.8.

    Example:
        >>> z = torch.zeros(1, 1, 1)
        >>> DampedPicard(damping=0.5).step(z, torch.cos(z) - z)[0].item()
        0.5
    """

    damping: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < check_number("damping", self.damping) <= 1:
            raise InputError(f"damping is {self.damping}; give a number above 0 and at most 1")

    def start(self, latent: Tensor) -> None:
        """Return nothing: the iteration has no memory."""

    def step(
        self,
        latent: Tensor,
        change: Tensor,
        active: Tensor | None = None,  # noqa: ARG002
        memory: None = None,  # noqa: ARG002
    ) -> tuple[Tensor, None]:
        """Return (1 − τ) z + τ Φ(z)."""
        return torch.add(latent, change, alpha=self.damping), None
