"""The interface of fixed-point problems and of solvers, and the norm of their latents."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.linalg import vector_norm


class Dependence(Enum):
    """Which tokens the image of a token depends on: what "converged" has to wait for.

    Example:
        >>> Dependence("causal").name
        'CAUSAL'
    """

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
    """An immutable set of options with one step; the loop that calls it is written once, in `loop.solve`.

    Example:
        >>> from implicit.fixed_point import Anderson, DampedPicard
        >>> solvers: list[Solver] = [DampedPicard(0.5), Anderson(memory=3)]  # accepted by the type checker
    """

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
