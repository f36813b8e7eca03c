"""The implicit gradient, its adjoint system solved iteratively, as the fixed point, or exactly by token."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from automata.checks import check_number
from automata.errors import InputError, warn_caller
from implicit.fixed_point import (
    Dependence,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Stopping,
    solve,
)
from implicit.gradients.adjoint import Product
from implicit.gradients.rules import with_adjoint_solved

_ADJOINT_DEPENDENCE = {
    Dependence.OWN: Dependence.OWN,
    Dependence.CAUSAL: Dependence.ANTICAUSAL,
    Dependence.ANTICAUSAL: Dependence.CAUSAL,
}


@dataclass(frozen=True)
class Implicit:
    """The gradient of the implicit function theorem, by solving the adjoint fixed point.

    Backward derivation, for a loss L with g = ∂L/∂z* and J = ∂zΦ at z*:

        dL/dθ = gᵀ dz*/dθ = gᵀ (I − J)^{-1} ∂θΦ = vᵀ ∂θΦ     with     v = g + Jᵀ v,

    and v is found by the same loop, solvers and status as z* itself. Under ``torch.func`` and in forward
    mode damped steps from z* are differentiated in place of that, as many as displacements take to decay.

    The solver and the stopping rule of the adjoint are the forward ones if None, but for the absolute
    tolerance. Source: Bai et al. 2019, "Deep Equilibrium Models", arXiv 1909.01377, Theorem 1.

    Example:
        z = a z + 1 has the solution 1 / (1 − a), with derivative 1 / (1 − a)² in a.

        >>> import torch
        >>> from implicit.gradients import fixed_point
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> how = {"stopping": Stopping(rtol=1e-6), "gradient": Implicit()}
        >>> found = fixed_point(lambda z: a * z + 1, torch.zeros(()), **how)
        >>> round(torch.autograd.grad(found.value, a)[0].item(), 3)
        4.0
    """

    solver: Solver | None = None
    stopping: Stopping | None = None

    def attach(
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
    ) -> Solution:
        """Hook in the solve of the adjoint, which warns when it happens and does not converge."""

        def adjoint(gradient: Tensor, image: Tensor, product: Product) -> Tensor:  # noqa: ARG001
            own = self.stopping or without_units(stopping)
            return iterated_adjoint(product, problem.dependence, self.solver or solver, own, gradient)

        return with_adjoint_solved(problem, solver, stopping, solution, adjoint)


def without_units(stopping: Stopping) -> Stopping:
    """Return the rule without an absolute tolerance: v has the units of the loss, z* has its own."""
    return replace(stopping, rtol=stopping.rtol or Stopping.rtol, atol=0.0) if stopping.atol else stopping


def iterated_adjoint(
    product: Product, dependence: Dependence, solver: Solver, stopping: Stopping, gradient: Tensor
) -> Tensor:
    """Find v = g + Jᵀ v from v ↦ Jᵀ v, where J has the dependence; warn where that does not converge."""
    problem = FixedPointProblem(lambda v: gradient + product(v), _ADJOINT_DEPENDENCE[dependence])
    found = solve(problem, solver, stopping, gradient)
    if not bool(found.converged.all()):
        warn_caller(f"the implicit gradient is not exact: {found.message()}", NotConvergedWarning)
    return found.value


_ROUNDINGS = 1000
"""Rounding units that factors leave at most, but where I − ∂zΦ is nearly singular."""


@dataclass(frozen=True)
class FactoredImplicit:
    """The gradient of `Implicit`; the problem solves the adjoint system v = g + Jᵀ v itself.

    The problems of a model do so in one pass from the last token to the first: by the LU factors of every
    token (`implicit.modes.adjoint`), or, on a CPU and for Mamba-2 cells, in a kernel that solves each token's
    own block by GMRES. Time and memory do not depend on how many iterations the fixed point took. A warning
    tells of tokens with ‖g + Jᵀ v − v‖ above rtol · ‖v‖. InputError for a tolerance that is not above 0.

    Example:
        >>> from implicit import Solve, load_run
        >>> from implicit.gradients import Implicit
        >>> model, tokens = load_run("parity").model, torch.ones(1, 5, dtype=torch.long)
        >>> weight = model.mixers[0].out_proj.weight
        >>> def gradient(rule):
        ...     solution = model.run(tokens, solve=Solve(gradient=rule)).solution
        ...     return torch.autograd.grad(solution.latents.sum(), weight)[0]
        >>> exact, iterated = gradient(FactoredImplicit()), gradient(Implicit())
        >>> bool((exact - iterated).norm() < 1e-3 * exact.norm())
        True
    """

    rtol: float = 1e-3

    def __post_init__(self) -> None:
        if not check_number("rtol", self.rtol) > 0:
            raise InputError(f"rtol is {self.rtol}; give a number above 0")

    def attach(
        self,
        problem: FixedPointProblem,
        solver: Solver,
        stopping: Stopping,
        solution: Solution,
    ) -> Solution:
        """Hook in the solve of the adjoint."""
        solve_adjoint = problem.solve_adjoint
        if solve_adjoint is None:
            raise InputError(f"gradient is {self}; this problem has no factors for it, give Implicit here")
        latent = solution.value.detach()
        rounding = _ROUNDINGS * torch.finfo(latent.dtype).eps

        def adjoint(gradient: Tensor, image: Tensor, product: Product) -> Tensor:
            v, left = solve_adjoint(latent, gradient)
            if left is None:
                left = (gradient + product(v) - v).norm(dim=-1)
            size = v.norm(dim=-1)
            if not bool((left <= rounding * size).all()):  # also where v is not finite
                off = (problem.function(latent) - image).norm(dim=-1)
                if bool((off > rounding * image.norm(dim=-1)).any()):
                    # Φ has changed since the forward pass, and with it the factors.
                    return iterated_adjoint(
                        product, problem.dependence, solver, without_units(stopping), gradient
                    )
            exact = left <= self.rtol * size
            if not bool(exact.all()):
                message = (
                    f"the implicit gradient is not exact: {int((~exact).sum())} of {exact.numel()} "
                    f"tokens leave more than {self.rtol:g} of it; I − ∂zΦ is nearly singular, use "
                    "float64 or Phantom"
                )
                warn_caller(message, NotConvergedWarning)
            return v

        return with_adjoint_solved(problem, solver, stopping, solution, adjoint)
