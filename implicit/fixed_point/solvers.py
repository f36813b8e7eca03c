"""The solvers: damped Picard iteration, and Anderson acceleration, mixed over each sequence by itself."""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.checks import check_integer, check_number
from automata.errors import InputError


def check_damping(damping: float) -> None:
    """Refuse a damping that is not above 0 and at most 1."""
    if not 0 < check_number("damping", damping) <= 1:  # also refuses NaN
        raise InputError(f"damping is {damping}; give a number above 0 and at most 1")


@dataclass(frozen=True)
class DampedPicard:
    """z ← (1 − τ) z + τ Φ(z) with the damping τ in (0, 1]; 1 is the plain iteration.

    Source: the code of Schöne et al. 2025, arXiv 2502.07827, with τ = 0.8.

    Example:
        >>> z = torch.zeros(1, 1, 1)
        >>> DampedPicard(damping=0.5).step(z, torch.cos(z) - z)[0].item()
        0.5
    """

    damping: float = 0.8

    def __post_init__(self) -> None:
        check_damping(self.damping)

    def start(self, latent: Tensor) -> None:
        """Return nothing: the iteration has no memory."""

    def step(
        self, latent: Tensor, change: Tensor, active: Tensor | None = None, memory: None = None
    ) -> tuple[Tensor, None]:
        """Return (1 − τ) z + τ Φ(z)."""
        return torch.add(latent, change, alpha=self.damping), None


History = tuple[Tensor, Tensor]
"""Past latents and residuals, each ``[steps, batch, tokens, features]``."""


@dataclass(frozen=True)
class Anderson:
    """Anderson mixing: the next iterate combines the last m so that the combined residual is smallest.

    With residuals g_i = Φ(z_i) − z_i, the weights α (summing to 1) minimise ‖Σ α_i g_i‖ over the sequence,
    and z ← Σ α_i (z_i + τ g_i). Weights are found for every sequence alone, so a batch does not mix.

    Attributes:
        memory: m, the number of iterates combined, at least 2.
        damping: τ in (0, 1].
        regularization: Tikhonov term relative to the largest residual, which keeps the small system solvable.

    Source: Walker & Ni 2011, "Anderson acceleration for fixed-point iterations", Eq. 2.2.

    Example:
        >>> from implicit.fixed_point import FixedPointProblem, Stopping, solve
        >>> matrix = torch.tensor([[0.9, 0.3], [0.0, -0.7]], dtype=torch.float64)
        >>> problem = FixedPointProblem(lambda z: z @ matrix.T + 1)
        >>> start = torch.zeros(1, 1, 2, dtype=torch.float64)
        >>> solve(problem, Anderson(memory=3, damping=1.0), Stopping(rtol=1e-8), start).iterations.item() < 9
        True
    """

    memory: int = 5
    damping: float = 1.0
    regularization: float = 1e-12

    def __post_init__(self) -> None:
        if check_integer("memory", self.memory) < 2:
            raise InputError(f"memory is {self.memory}; Anderson mixing needs at least 2 iterates")
        check_damping(self.damping)
        if not check_number("regularization", self.regularization) >= 0:
            raise InputError(f"regularization is {self.regularization}; give a number of at least 0")

    def start(self, latent: Tensor) -> History:
        """Return the empty history."""
        empty = latent.new_empty(0, *latent.shape)
        return empty, empty

    def step(self, latent: Tensor, change: Tensor, active: Tensor, memory: History) -> tuple[Tensor, History]:
        """Return the mixed iterate and the history with this one added."""
        # Tokens that the loop keeps fixed have nothing to minimise; they would only blur the weights.
        residual = torch.where(active[..., None], change, 0)
        latents = torch.cat([memory[0], latent[None]])[-self.memory :]
        residuals = torch.cat([memory[1], residual[None]])[-self.memory :]
        weights = self._weights(residuals)  # [steps, batch]
        mixed = torch.einsum("sb,sbtd->btd", weights, latents + self.damping * residuals)
        return mixed, (latents, residuals)

    def _weights(self, residuals: Tensor) -> Tensor:
        """Solve min ‖Σ α_i g_i‖² with Σ α_i = 1 through the normal equations, for each sequence."""
        steps, batch = residuals.shape[:2]
        if steps == 1:
            return residuals.new_ones(1, batch)
        dtype = torch.promote_types(residuals.dtype, torch.float32)  # half precision has no linear systems
        flat = residuals.flatten(2).transpose(0, 1).to(dtype)  # [batch, steps, tokens · features]
        # The weights do not depend on the scale of the residuals; scaled, their squares cannot overflow.
        scale = flat.detach().abs().amax(dim=(1, 2), keepdim=True)
        flat = flat / torch.where(scale > 0, scale, 1)
        gram = flat @ flat.mT
        largest = gram.diagonal(dim1=1, dim2=2).amax(-1)[:, None, None]
        ridge = self.regularization * largest + (largest == 0)  # residuals of zero: any weights will do
        gram = gram + ridge * torch.eye(steps, dtype=flat.dtype, device=flat.device)
        gram = torch.nan_to_num(
            gram, nan=1.0, posinf=1.0, neginf=1.0
        )  # the loop reports such a sequence itself
        solved, info = torch.linalg.solve_ex(gram, gram.new_ones(batch, steps, 1))
        weights = solved[..., 0] / solved[..., 0].sum(-1, keepdim=True)
        # A singular system falls back to the plain damped step.
        plain = torch.zeros_like(weights)
        plain[:, -1] = 1
        usable = (info == 0)[:, None] & weights.isfinite().all(-1, keepdim=True)
        return torch.where(usable, weights, plain).mT.to(residuals)
