"""The loop that every solver shares: counts, tolerance, non-finite check, and what is kept as it is."""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point.problem import Dependence, FixedPointProblem, Solver
from implicit.fixed_point.solution import Solution, Status


@dataclass(frozen=True)
class Stopping:
    """When a token's iteration ends: ‖Φ(z) − z‖ ≤ atol + rtol · ‖z‖, or after max_iterations.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance.
        max_iterations: the most evaluations of Φ.

    Example:
        >>> Stopping(rtol=0.05, max_iterations=24)
        Stopping(rtol=0.05, atol=0.0, max_iterations=24)
    """

    rtol: float = 1e-4
    atol: float = 0.0
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        if not (self.rtol >= 0 and self.atol >= 0):  # also refuses NaN
            raise InputError(f"rtol is {self.rtol} and atol {self.atol}; give tolerances of at least 0")
        if self.max_iterations < 1:
            raise InputError(f"max_iterations is {self.max_iterations}; give at least 1")

    def is_met(self, latent: Tensor, residual: Tensor) -> Tensor:
        """Return per token whether the residual is within the tolerance, ``[batch, tokens]``."""
        return residual <= self.atol + self.rtol * latent.norm(dim=-1)


def solve(problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor) -> Solution:
    """Iterate until every token is done, each by itself.

    A token is done when it has converged (and, under `Dependence.CAUSAL`, all tokens before it have) or when
    its image, or that of a token it depends on, is not finite. From then on its latent is kept as it is, so
    the result of a sequence does not depend on the others in the batch, and the residual returned belongs to
    the value returned.

    Args:
        problem: Φ and the dependence among tokens.
        solver: how the next iterate is made.
        stopping: tolerance and limit.
        start: z₀, ``[batch, tokens, features]``.

    Returns:
        The `Solution`; look at its status before using its value.

    Raises:
        InputError: for a Φ that does not keep the shape of the latent.

    Example:
        Two sequences stop by themselves, the slower after more evaluations.

        >>> from implicit.fixed_point import DampedPicard
        >>> rate = torch.tensor([0.1, 0.9]).view(2, 1, 1)
        >>> problem = FixedPointProblem(lambda z: rate * z + 1)
        >>> solution = solve(problem, DampedPicard(1.0), Stopping(rtol=1e-3), torch.zeros(2, 1, 1))
        >>> solution.iterations.flatten().tolist(), [round(z, 2) for z in solution.value.flatten().tolist()]
        ([4, 45], [1.11, 9.9])
    """
    latent, memory = start, solver.start(start)
    iterations = torch.zeros(start.shape[:-1], dtype=torch.long, device=start.device)
    residual = torch.full(start.shape[:-1], torch.inf, dtype=start.dtype, device=start.device)
    status = torch.full(start.shape[:-1], Status.MAX_ITERATIONS, dtype=torch.int8, device=start.device)
    active = torch.ones_like(status, dtype=torch.bool)
    for evaluation in range(1, stopping.max_iterations + 1):
        image = problem.function(latent)
        if image.shape != latent.shape:  # it would be broadcast silently
            raise InputError(
                f"function returned shape {tuple(image.shape)}; it must be that of z, {tuple(latent.shape)}"
            )
        measured = (image - latent).detach().norm(dim=-1)
        residual = torch.where(active, measured, residual)
        iterations += active
        finite = with_all_it_depends_on(measured.isfinite() | ~active, problem.dependence)
        settled = with_all_it_depends_on(
            ~active & (status == Status.CONVERGED) | stopping.is_met(latent.detach(), residual) & finite,
            problem.dependence,
        )
        status = torch.where(active & settled, int(Status.CONVERGED), status)
        status = torch.where(active & ~finite, int(Status.NON_FINITE), status).to(torch.int8)
        active = status == Status.MAX_ITERATIONS
        if evaluation == stopping.max_iterations or not bool(active.any()):
            break
        following, memory = solver.step(latent, image, active, memory)
        latent = torch.where(active[..., None], following, latent)
    return Solution(latent, iterations, residual, status)


def with_all_it_depends_on(met: Tensor, dependence: Dependence) -> Tensor:
    """Turn "within tolerance" into "converged": all tokens that a token depends on must be within it too.

    Args:
        met: whether a token is within the tolerance, ``[batch, tokens]``, bool.
        dependence: which tokens a token's image depends on.

    Example:
        >>> with_all_it_depends_on(torch.tensor([[True, False, True]]), Dependence.CAUSAL).tolist()
        [[True, False, False]]
    """
    if dependence is Dependence.CAUSAL:
        return met.cummin(dim=-1).values
    if dependence is Dependence.ANTICAUSAL:
        return met.flip(-1).cummin(dim=-1).values.flip(-1)
    return met
