"""A penalty that makes the self-map contract around its fixed points.

Trained on cross-entropy alone, a model may answer right and still have several fixed points at a token, or
none. Penalising the Jacobian of the self-map makes both rarer (figures in docs/log_archive.md).
"""

import math

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, field_validator
from torch import Tensor

from automata.errors import InputError
from implicit.penalties.interface import Penalty, Solved


class Contraction(Penalty):
    """How much a random perturbation of the latents is amplified by one self-iteration.

    With v standard normal, the mean over real tokens of a = ‖Φ(z + ε v) − Φ(z)‖² / ε² tends, as ε → 0, to
    ‖∂zΦ‖_F² per token, where ∂zΦ is the Jacobian over all tokens together. It bounds the spectral radius of
    every token's own iteration and the growth of an error from token to token. A finite ε asks for the same
    within a ball around z, and needs no second derivative. Measured is the mean of a^power: above 1
    the tokens that contract least count most.

    Scales are the least and the largest ε, in units of the latent; where they differ, each sequence has its
    own, log-uniform between them. Source: Bai, Koltun & Kolter 2021, arXiv 2106.14342, with a finite
    difference in place of their vector-Jacobian product.
    """

    evaluations = 2

    weight: NonNegativeFloat = Field(
        default=0.0, description="weight of the contraction penalty in the free phase; 0 for none"
    )
    scales: tuple[PositiveFloat, PositiveFloat] = Field(
        default=(0.1, 0.1),
        description="distances at which it measures, the least and the largest, in units of the latent",
    )
    power: float = Field(
        default=1.0,
        ge=1,
        description="power of the amplification that it averages; above 1 for the tokens that contract least",
    )

    @field_validator("scales")
    @classmethod
    def _in_order(cls, scales: tuple[float, float]) -> tuple[float, float]:
        if scales[0] > scales[1]:
            raise InputError(f"contraction_scales are {scales[0]} and {scales[1]}; give the least first")
        return scales

    def measure(self, solved: Solved) -> Tensor:
        """Return the mean amplification of random perturbations."""
        latent, noise, mask = solved.latents, solved.noise, solved.solution.mask
        function = solved.model.problem(solved.tokens, solved.state, solved.lengths).function
        least, largest = self.scales
        scale: Tensor | float = least
        if largest != least:
            drawn = torch.rand((len(latent), 1, 1), dtype=latent.dtype, generator=noise).to(latent.device)
            scale = least * (drawn * math.log(largest / least)).exp()
        direction = torch.randn(latent.shape, dtype=latent.dtype, generator=noise).to(latent.device)
        change = function(latent + scale * direction) - function(latent)
        amplified = (change / scale).square().sum(dim=-1)
        if self.power != 1:
            amplified = amplified.pow(self.power)
        return amplified.mean() if mask is None else amplified[mask].mean()


PENALTY = Contraction
