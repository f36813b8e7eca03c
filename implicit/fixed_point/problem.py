"""The interface of fixed-point problems and of solvers, the norm of latents, and the result of a solve."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.linalg import vector_norm

from theory.status import Status


class Dependence(Enum):
    """Which tokens the image of a token depends on: what "converged" has to wait for."""

    OWN = "own"
    """Only on its own latent: tokens are independent problems (the sequential mode)."""
    CAUSAL = "causal"
    """On its own and all earlier ones (the simultaneous mode)."""
    ANTICAUSAL = "anticausal"
    """On its own and all later ones (the adjoint of the simultaneous mode)."""


class AdjointSolution(NamedTuple):
    """The solution of the adjoint system v = g + (∂zΦ)ᵀ v.

    Attributes:
        value: v, ``[batch, tokens, features]``.
        residual: ‖g + (∂zΦ)ᵀ v − v‖ per token, ``[batch, tokens]``; None where it was not measured.
    """

    value: Tensor
    residual: Tensor | None


@dataclass(frozen=True)
class FixedPointProblem:
    """Find z with z = Φ(z), for every sequence of a batch by itself.

    Attributes:
        function: Φ, mapping ``[batch, tokens, features]`` to the same shape; sequences must not mix.
        dependence: which tokens a token's image depends on.
        solve_adjoint: (z, g) ↦ v with its residual, which solves v = g + (∂zΦ)ᵀ v at z; None where the
            problem does not offer that.

    Example:
        >>> import torch
        >>> problem = FixedPointProblem(torch.cos)
        >>> problem.function(torch.zeros(1, 1, 1)).item()
        1.0
    """

    function: Callable[[Tensor], Tensor]
    dependence: Dependence = Dependence.OWN
    solve_adjoint: Callable[[Tensor, Tensor], AdjointSolution] | None = None


class Solver(Protocol):
    """An immutable set of options with one step; the loop that calls it is written once, in `loop.solve`."""

    def start(self, latent: Tensor) -> Any:
        """Return the memory that the solver carries from step to step; None if it needs none."""
        ...

    def step(self, latent: Tensor, change: Tensor, active: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Return the next iterate and the memory, which the next step is given.

        The change is Φ(z) − z, ``[batch, tokens, features]`` as the latent z; its norm per token is the
        residual. ``active`` is False, ``[batch, tokens]``, where the loop keeps the token as it is.
        """
        ...


def token_norm(vectors: Tensor) -> Tensor:
    """Return ‖v‖ over the last axis, also where squares overflow or vanish."""
    plain = vector_norm(vectors, dim=-1)
    held = (plain > least_norm(vectors.dtype)) & (plain < math.inf)
    largest = vectors.abs().amax(dim=-1)
    scale = torch.where(held | (largest == 0), 1, largest)
    return torch.where(held, plain, vector_norm(vectors / scale[..., None], dim=-1) * scale)


@functools.cache
def least_norm(dtype: torch.dtype) -> float:
    """Return the least norm whose square is a normal number; half precision is summed up in float32."""
    return math.sqrt(torch.finfo(torch.promote_types(dtype, torch.float32)).tiny)


class FixedPointError(ArithmeticError):
    """A fixed point was asked for and not reached."""


class NotConvergedWarning(UserWarning):
    """Outputs were computed from latents that are not fixed points.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", NotConvergedWarning)  # to stop at the first such latent
    """


@dataclass(frozen=True, repr=False)
class Solution:
    """The latents that a solver ended with, and for each token how it got there.

    Attributes:
        value: z, ``[batch, tokens, features]``; a fixed point only where the status says so.
        iterations: evaluations of Φ until the token was done, ``[batch, tokens]``, int64.
        residual: ‖Φ(z) − z‖₂ of the token when it was last evaluated, ``[batch, tokens]``.
        status: `Status` codes, ``[batch, tokens]``, int8. A token that depends on one that did not converge
            has not converged either: its code is MAX_ITERATIONS, with fewer iterations than the limit, or
            NON_FINITE.
        earlier: latents as many steps before the limit as were asked for, shaped like ``value``; None if the
            solve ended before that.

    Example:
        >>> from implicit.fixed_point import DampedPicard, FixedPointProblem, Stopping, solve
        >>> problem = FixedPointProblem(torch.cos)
        >>> solution = solve(problem, DampedPicard(), Stopping(rtol=1e-4), torch.zeros(1, 1, 1))
        >>> round(solution.value.item(), 3), solution.share_converged, solution.message()
        (0.739, 1.0, '1 of 1 tokens: the residual fell below the tolerance')
    """

    value: Tensor
    iterations: Tensor
    residual: Tensor
    status: Tensor
    earlier: Tensor | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {[*self.value.shape]}: {self.message()}"

    @property
    def converged(self) -> Tensor:
        """Which tokens reached their fixed point, ``[batch, tokens]``, bool."""
        return self.status == Status.CONVERGED

    @property
    def counted(self) -> Tensor | None:
        """Which tokens statistics are taken over, ``[batch, tokens]``, bool; None for all of them."""
        return None

    @property
    def share_converged(self) -> float:
        """The share of the counted tokens that reached their fixed point."""
        converged = self.converged if self.counted is None else self.converged[self.counted]
        return float(converged.double().mean())

    @property
    def relative_residual(self) -> Tensor:
        """‖Φ(z) − z‖ / ‖z‖ per token."""
        norm = token_norm(self.value.detach())
        return self.residual / norm.clamp_min(torch.finfo(self.value.dtype).tiny)

    def after(self, reached: Tensor) -> "Solution":
        """Return the solution with "converged" taken back where not all earlier tokens ``reached`` theirs."""
        status = torch.where(reached | ~self.converged, self.status, int(Status.MAX_ITERATIONS))
        return replace(self, status=status.to(torch.int8))

    @staticmethod
    def concatenate(solutions: "Sequence[Solution]") -> "Solution":
        """Join the solutions of consecutive tokens into that of the sequence."""
        names = ("value", "iterations", "residual", "status")
        return Solution(*(torch.cat([getattr(one, name) for one in solutions], dim=1) for name in names))

    def message(self) -> str:
        """Say for the worst status how many tokens ended with it, and the remedy."""
        worst = Status(int(self.status.max()))
        count = int((self.status == worst).sum())
        return f"{count} of {self.status.numel()} tokens: {worst.sentence}"

    def require_converged(self) -> Self:
        """Return self if every token converged.

        FixedPointError otherwise, with the message.
        """
        if not bool(self.converged.all()):
            raise FixedPointError(f"no fixed point reached for {self.message()}")
        return self
