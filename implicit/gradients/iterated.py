"""The implicit gradient, its adjoint system solved by the same loop and solvers as the fixed point."""

from dataclasses import dataclass, replace

from torch import Tensor

from automata.caller import warn_caller
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

    Attributes:
        solver: the solver of the adjoint; the forward one if None.
        stopping: tolerance and limit of the adjoint; the forward ones if None, but the absolute tolerance.

    Source:
        Bai et al. 2019, "Deep Equilibrium Models", arXiv 1909.01377, Theorem 1.

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
        """Hook in the solve of the adjoint, which warns when it happens and does not converge.

        Raises:
            InputError: where the gradient is differentiated once more, outside of ``torch.func``.
        """

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
