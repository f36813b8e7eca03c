"""Gradient rules: how a fixed point is differentiated. None of them knows which solver found it.

With z* = Φ(z*, θ), the implicit function theorem gives dz*/dθ = (I − ∂zΦ)^{-1} ∂θΦ. A rule attaches a
gradient to a solution and nothing more: value, residual and status stay the solver's.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from automata.checks import check_integer, check_number
from automata.errors import InputError, warn_caller
from implicit.fixed_point import (
    DampedPicard,
    Dependence,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Stopping,
    solve,
    unroll,
)
from implicit.fixed_point.problem import token_norm
from implicit.fixed_point.solvers import check_damping
from implicit.gradients.adjoint import Adjoint, Product, linearised, with_adjoint, with_gradient_of


class GradientRule(Protocol):
    """Give the value of a solution a gradient."""

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

    def attach(self, *_: object) -> Solution:
        """Refuse: the steps that led to the solution are not known."""
        raise InputError(
            f"gradient is {self}; it differentiates its own iterations only, give Phantom or Implicit here"
        )


@dataclass(frozen=True)
class Phantom:
    """Take the gradient of k damped steps from the solution. Memory does not grow with the iterations.

    The steps leave the value as it is. For a token that reached the limit the simultaneous mode takes the
    last ones, which led to its value, if the limit is above k; other modes may go on from it. The gradient is
    the truncated Neumann series τ Σ_{i<k} ((1−τ) I + τ ∂zΦ)^i ∂θΦ, which tends to the implicit gradient as k
    grows wherever the damped iteration contracts. The damping τ is that of the solver if None, or 0.8 where
    it has none.

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
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
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
    """
    if isinstance(gradient, Unrolled):
        return unroll(problem, solver, stopping, start, gradient.iterations)
    # without a gradient too: the value must not depend on whether one is recorded
    steps = gradient.steps if isinstance(gradient, Phantom) else 0
    with torch.no_grad():
        solution = solve(problem, solver, stopping, start, steps_kept=steps)
    return gradient.attach(problem, solver, stopping, solution)


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
        self, problem: FixedPointProblem, solver: Solver, stopping: Stopping, solution: Solution
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
                    f"tokens leave more than {self.rtol:g} of it; I − ∂zΦ is nearly singular; "
                    "lower the learning rate, or use float64 or Phantom"
                )
                warn_caller(message, NotConvergedWarning)
            return v

        return with_adjoint_solved(problem, solver, stopping, solution, adjoint)
