"""The result of a solve: the value, and for every token how it was reached."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from implicit.fixed_point.problem import token_norm
from theory.status import Status


class FixedPointError(ArithmeticError):
    """A fixed point was asked for and not reached."""


class NotConvergedWarning(UserWarning):
    """Outputs were computed from latents that are not fixed points."""


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
