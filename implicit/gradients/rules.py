"""Gradient rules: how the fixed point is differentiated. None of them knows which solver found it.

With z* = Φ(z*, θ), the implicit function theorem gives dz*/dθ = (I − ∂zΦ)^{-1} ∂θΦ. The rules:

- `Unrolled`: differentiate through n damped steps from the start; exact for what was computed.
- `Phantom`: solve without gradient, then differentiate k damped steps from the solution. With damping τ this
  is the Neumann series τ Σ_{i<k} ((1−τ) I + τ ∂zΦ)^i ∂θΦ, which tends to the implicit gradient as k grows
  wherever the damped iteration contracts.
- `Implicit`: solve the adjoint system v = g + (∂zΦ)ᵀ v, then back-propagate v through one evaluation of Φ;
  iterated here, solved without iterating by `implicit.gradients.factored`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import (
    Dependence,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Status,
    Stopping,
    solve,
)
from implicit.fixed_point.loop import with_all_it_depends_on

_ADJOINT_DEPENDENCE = {
    Dependence.OWN: Dependence.OWN,
    Dependence.CAUSAL: Dependence.ANTICAUSAL,
    Dependence.ANTICAUSAL: Dependence.CAUSAL,
}


class GradientRule(Protocol):
    """Solve a problem so that the value of the solution carries a gradient.

    Example:
        >>> rules: list[GradientRule] = [Unrolled(4), Phantom(4), Implicit()]  # accepted by the type checker
    """

    def solve(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor
    ) -> Solution:
        """Return the solution; its value is differentiable in whatever Φ depends on."""
        ...

    def attach(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
    ) -> Solution:
        """Give the value of a solution that was found without gradient its gradient.

        Args:
            problem: that was solved.
            solver: that the adjoint takes if the rule names none.
            stopping: likewise.
            solution: however it was found.
        """
        ...


@dataclass(frozen=True)
class Unrolled:
    """Differentiate through a fixed number of steps: the bounded phase of the curriculum.

    The stopping rule's limit is replaced by `iterations` and no token stops early. The residual and the
    status are those of the last evaluated iterate.

    Attributes:
        iterations: n, the number of evaluations of Φ.

    Example:
        z ← a z + b twice from 0 gives a b + b, with derivative b in a.

        >>> from implicit.fixed_point import DampedPicard
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 3)
        >>> value = Unrolled(2).solve(problem, DampedPicard(1.0), Stopping(), torch.zeros(1, 1, 1)).value
        >>> value.sum().backward(); value.item(), a.grad.item()
        (4.5, 3.0)
    """

    iterations: int = 4

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InputError(f"iterations is {self.iterations}; give at least 1")

    def solve(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor
    ) -> Solution:
        """Run the steps with gradient."""
        latent, memory = start, solver.start(start)
        everywhere = torch.ones(start.shape[:-1], dtype=torch.bool, device=start.device)
        for _ in range(self.iterations):
            image = problem.function(latent)
            previous = latent
            latent, memory = solver.step(latent, image, everywhere, memory)
        residual = (image - previous).detach().norm(dim=-1)
        met = stopping.is_met(previous.detach(), residual)
        reached = with_all_it_depends_on(met, problem.dependence)
        status = torch.where(reached, int(Status.CONVERGED), int(Status.MAX_ITERATIONS))
        status = torch.where(residual.isfinite(), status, int(Status.NON_FINITE)).to(torch.int8)
        return Solution(latent, everywhere * self.iterations, residual, status)

    def attach(
        self,
        problem: FixedPointProblem,  # noqa: ARG002
        solver: Solver,  # noqa: ARG002
        stopping: Stopping,  # noqa: ARG002
        solution: Solution,  # noqa: ARG002
    ) -> Solution:
        """Refuse: the steps that led to the solution are not known.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"gradient is {self}; it differentiates its own iterations only, give Phantom or Implicit here"
        )


@dataclass(frozen=True)
class Phantom:
    """Solve without gradient, then k damped steps with it. Memory does not grow with the iterations.

    Attributes:
        steps: k.
        damping: τ of those steps.

    Source:
        Geng et al. 2021, "On Training Implicit Models", arXiv 2111.05177; k = 4 and τ = 0.8 in Schöne et al.

    Example:
        For z = a z + b the implicit gradient db/(1−a)² is approached as k grows.

        >>> from implicit.fixed_point import DampedPicard
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 1)
        >>> for k in (4, 40):
        ...     rule = Phantom(steps=k, damping=0.8)
        ...     z = rule.solve(problem, DampedPicard(), Stopping(rtol=1e-7), torch.zeros(1, 1, 1)).value
        ...     print(round(torch.autograd.grad(z.sum(), a)[0].item(), 3))
        3.482
        4.0
    """

    steps: int = 4
    damping: float = 0.8

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps is {self.steps}; give at least 1")
        if not 0 < self.damping <= 1:
            raise InputError(f"damping is {self.damping}; give a number above 0 and at most 1")

    def solve(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor
    ) -> Solution:
        """Solve, then attach the gradient; the account of convergence is that of the solve."""
        with torch.no_grad():
            solution = solve(problem, solver, stopping, start)
        return self.attach(problem, solver, stopping, solution)

    def attach(
        self,
        problem: FixedPointProblem,
        solver: Solver,  # noqa: ARG002
        stopping: Stopping,  # noqa: ARG002
        solution: Solution,
    ) -> Solution:
        """Take the damped steps."""
        if not torch.is_grad_enabled():
            return solution
        latent = solution.value
        for _ in range(self.steps):
            latent = latent + self.damping * (problem.function(latent) - latent)
        return replace(solution, value=latent)


@dataclass(frozen=True)
class Implicit:
    """The gradient of the implicit function theorem, by solving the adjoint fixed point.

    Backward derivation, for a loss L with g = ∂L/∂z* and J = ∂zΦ at z*:

        dL/dθ = gᵀ dz*/dθ = gᵀ (I − J)^{-1} ∂θΦ = vᵀ ∂θΦ     with     v = g + Jᵀ v,

    and v is found by the same loop, solvers and status as z* itself.

    Attributes:
        solver: the solver of the adjoint; the forward one if None.
        stopping: tolerance and limit of the adjoint; the forward one if None.

    Source:
        Bai et al. 2019, "Deep Equilibrium Models", arXiv 1909.01377, Theorem 1.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> problem = FixedPointProblem(lambda z: a * z + 1)
        >>> z = Implicit().solve(problem, DampedPicard(), Stopping(rtol=1e-7), torch.zeros(1, 1, 1)).value
        >>> round(torch.autograd.grad(z.sum(), a)[0].item(), 4)
        4.0
    """

    solver: Solver | None = None
    stopping: Stopping | None = None

    def solve(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor
    ) -> Solution:
        """Solve, then attach the gradient.

        Raises:
            InputError: in a backward pass with ``create_graph=True``.
        """
        with torch.no_grad():
            solution = solve(problem, solver, stopping, start)
        return self.attach(problem, solver, stopping, solution)

    def attach(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
    ) -> Solution:
        """Hook in the solve of the adjoint, which warns when it happens and does not converge.

        Raises:
            InputError: in a backward pass with ``create_graph=True``.
        """
        if not torch.is_grad_enabled():
            return solution
        leaf = solution.value.detach().requires_grad_()
        image = problem.function(leaf)

        def adjoint_of(gradient: Tensor) -> Tensor:
            backward = solve(
                FixedPointProblem(
                    lambda v: gradient + transposed_product(image, leaf, v),
                    _ADJOINT_DEPENDENCE[problem.dependence],
                ),
                self.solver or solver,
                self.stopping or stopping,
                gradient,
            )
            if not bool(backward.converged.all()):
                message = f"the implicit gradient is not exact: {backward.message()}"
                warnings.warn(message, NotConvergedWarning, stacklevel=3)
            return backward.value

        return replace(solution, value=with_adjoint(image, adjoint_of))


def transposed_product(image: Tensor, leaf: Tensor, v: Tensor) -> Tensor:
    """Return Jᵀ v with J the derivative of the image in the leaf, once more for every call.

    Example:
        >>> leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> transposed_product(leaf.square(), leaf, torch.ones(2))
        tensor([2., 4.])
    """
    # A Φ that ignores z has no gradient in it: Jᵀ v = 0.
    return torch.autograd.grad(image, leaf, v, retain_graph=True, materialize_grads=True)[0]


def with_adjoint(image: Tensor, adjoint_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the image so that a gradient g that comes back to it goes on as v, the solution of the adjoint.

    Args:
        image: Φ(z*), differentiable in the parameters.
        adjoint_of: g ↦ v.

    Raises:
        InputError: in a backward pass with ``create_graph=True``.

    Example:
        >>> b = torch.ones(1, requires_grad=True)
        >>> with_adjoint(3 * b, lambda g: 2 * g).sum().backward(); b.grad
        tensor([6.])
    """

    def solve_adjoint(gradient: Tensor | None) -> Tensor | None:
        if gradient is None:  # what autograd passes for an undefined gradient
            return None
        if torch.is_grad_enabled():  # v would be taken for a constant
            raise InputError(
                "create_graph is True; Implicit has first derivatives only, use Unrolled for more"
            )
        return adjoint_of(gradient)

    # The hook must not see the backward passes of the adjoint itself, so it sits on a view of the image.
    attached = image.view_as(image)
    if attached.requires_grad:
        attached.register_hook(solve_adjoint)
    return attached
