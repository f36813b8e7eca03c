"""Gradient rules: how a fixed point is differentiated. None of them knows which solver found it.

With z* = Φ(z*, θ), the implicit function theorem gives dz*/dθ = (I − ∂zΦ)^{-1} ∂θΦ. A rule attaches a
gradient to a solution and nothing more: value, residual and status stay the solver's.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from automata.checks import check_integer
from automata.errors import InputError, warn_caller
from implicit.fixed_point import (
    DampedPicard,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Stopping,
    solve,
    unroll,
)
from implicit.fixed_point.norm import token_norm
from implicit.fixed_point.solvers import check_damping
from implicit.gradients.adjoint import Adjoint, linearised, with_adjoint, with_gradient_of


class GradientRule(Protocol):
    """Give the value of a solution a gradient.

    Example:
        >>> from implicit.gradients import Implicit
        >>> rules: list[GradientRule] = [Unrolled(4), Phantom(4), Implicit()]  # accepted by the type checker
    """

    def attach(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
    ) -> Solution:
        """Give the value of a solution, found without gradient, its gradient; the value stays as it is.

        The adjoint takes solver and stopping if the rule names none; phantom steps take the solver's damping.
        """
        ...


@dataclass(frozen=True)
class Unrolled:
    """Differentiate through a fixed number of steps: the bounded phase of the curriculum.

    The steps are ``iterations`` evaluations of Φ, in place of the limit of the stopping rule; no token stops
    early. One more evaluation, without gradient, gives the residual and the status.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import solve_with_gradient
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 3)
        >>> arguments = problem, DampedPicard(1.0), Stopping(), torch.zeros(1, 1, 1)
        >>> value = solve_with_gradient(*arguments, Unrolled(2)).value
        >>> value.sum().backward(); value.item(), a.grad.item()
        (4.5, 3.0)
    """

    iterations: int = 4

    def __post_init__(self) -> None:
        check_integer("iterations", self.iterations, 1)

    def attach(
        self,
        problem: FixedPointProblem,  # noqa: ARG002
        solver: Solver,  # noqa: ARG002
        stopping: Stopping,  # noqa: ARG002
        solution: Solution,  # noqa: ARG002
    ) -> Solution:
        """Refuse: the steps that led to the solution are not known."""
        raise InputError(
            f"gradient is {self}; it differentiates its own iterations only, give Phantom or Implicit here"
        )


@dataclass(frozen=True)
class Phantom:
    """Take the gradient of k damped steps from the solution. Memory does not grow with the iterations.

    The steps leave the value as it is; for a token that reached the limit they are the last ones, which led
    to its value. The gradient is the truncated Neumann series τ Σ_{i<k} ((1−τ) I + τ ∂zΦ)^i ∂θΦ, which tends
    to the implicit gradient as k grows wherever the damped iteration contracts. The damping τ is that of the
    solver if None, or 0.8 where it has none.

    Source: Geng et al. 2021, "On Training Implicit Models", arXiv 2111.05177; k = 4 and τ = 0.8 in Schöne et
    al. 2025, arXiv 2502.07827.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import solve_with_gradient
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 1)
        >>> for k in (4, 40):
        ...     rule = Phantom(steps=k, damping=0.8)
        ...     arguments = problem, DampedPicard(), Stopping(rtol=1e-6), torch.zeros(1, 1, 1)
        ...     z = solve_with_gradient(*arguments, rule).value
        ...     print(round(torch.autograd.grad(z.sum(), a)[0].item(), 3))
        3.482
        4.0
    """

    steps: int = 4
    damping: float | None = None

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, 1)
        if self.damping is not None:
            check_damping(self.damping)

    def attach(
        self,
        problem: FixedPointProblem,
        solver: Solver,
        stopping: Stopping,  # noqa: ARG002
        solution: Solution,
    ) -> Solution:
        """Take the damped steps, for their gradient."""
        if not torch.is_grad_enabled():
            return solution
        damping = getattr(solver, "damping", 0.8) if self.damping is None else self.damping
        latent = solution.value
        if solution.earlier is not None:
            latent = torch.where(solution.converged[..., None], latent, solution.earlier)
        for _ in range(self.steps):
            latent = latent + damping * (problem.function(latent) - latent)
        return replace(solution, value=with_gradient_of(solution.value, latent))


DISPLACED = 0.1
"""How far from z*, relative to it, steps begin whose decay is counted: within reach of z*, above rounding."""


def by_all_steps(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
) -> Solution:
    """Give a solution the gradient of as many damped steps as a displacement from it takes to decay.

    They serve every order, forward mode and the transforms of ``torch.func``, where no adjoint can be solved.
    Memory grows with the steps.
    """
    picard = DampedPicard(getattr(solver, "damping", 0.8))
    with torch.no_grad():
        steps, decayed = _steps_of_decay(problem, picard.damping, stopping, solution.value.detach())
    if not decayed:
        message = f"a displacement does not decay in {steps} steps; raise max_iterations, or use float64"
        warn_caller(f"the implicit gradient is not exact: {message}", NotConvergedWarning)
    return Phantom(steps).attach(problem, picard, stopping, replace(solution, earlier=None))


def _steps_of_decay(
    problem: FixedPointProblem, damping: float, stopping: Stopping, value: Tensor
) -> tuple[int, bool]:
    """Count the steps after which a displacement of every token has decayed by the tolerance, or to rounding.

    A displacement meets slow directions, too, in which z* was reached at once.
    """
    size, eps = token_norm(value), torch.finfo(value.dtype).eps
    direction = torch.arange(value.shape[-1], device=value.device).add(1.0).cos().to(value.dtype)
    displaced = DISPLACED * torch.where(size > 0, size, 1.0)
    here = value + displaced[..., None] * direction / direction.norm()
    least = max(stopping.rtol or Stopping.rtol, 10 * eps) * displaced
    before = torch.full_like(size, math.inf)
    for step in range(1, stopping.max_iterations + 1):
        move = damping * (problem.function(here) - here)
        moved = token_norm(move)
        # At the rate of the last step, moved / before, all steps to come move by moved / (1 − rate) together.
        decayed = moved <= least * (1 - moved / before)
        if bool((decayed | (moved <= 4 * eps * token_norm(here))).all()):
            return step, True
        here, before = here + move, moved
    return stopping.max_iterations, False


def with_adjoint_solved(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution, adjoint: Adjoint
) -> Solution:
    """Hook in the solve of the adjoint: ``adjoint`` is called in the backward pass."""
    if not torch.is_grad_enabled():
        return solution
    linear = linearised(problem, solution.value)
    if linear is None:
        return by_all_steps(problem, solver, stopping, solution)
    image, product = linear
    if not image.requires_grad:
        return solution
    found = image.detach()
    value = with_adjoint(solution.value, image, lambda gradient: adjoint(gradient, found, product))
    return replace(solution, value=value)


def solve_with_gradient(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor, gradient: GradientRule
) -> Solution:
    """Return the solution; its value is differentiable, by the gradient rule, in whatever Φ depends on.

    InputError for a problem that the rule cannot differentiate.

    Example:
        z = a z + 1 has the solution 1 / (1 − a), with derivative 1 / (1 − a)² in a.

        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import Implicit
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 1)
        >>> arguments = problem, DampedPicard(), Stopping(rtol=1e-6), torch.zeros(1, 1, 1)
        >>> z = solve_with_gradient(*arguments, Implicit()).value
        >>> round(z.item(), 4), round(torch.autograd.grad(z.sum(), a)[0].item(), 4)
        (2.0, 4.0)
    """
    if isinstance(gradient, Unrolled):
        return unroll(problem, solver, stopping, start, gradient.iterations)
    steps = gradient.steps if isinstance(gradient, Phantom) and torch.is_grad_enabled() else 0
    with torch.no_grad():
        solution = solve(problem, solver, stopping, start, steps_kept=steps)
    return gradient.attach(problem, solver, stopping, solution)
