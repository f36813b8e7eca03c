"""A fixed point sought and differentiated: the search without gradient, then the rule; or both in one."""

import torch
from torch import Tensor

from implicit.fixed_point import FixedPointProblem, Solution, Solver, Stopping, solve, unroll
from implicit.gradients.rules import GradientRule, Phantom, Unrolled


def solve_with_gradient(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor, gradient: GradientRule
) -> Solution:
    """Return the solution; its value is differentiable, by the gradient rule, in whatever Φ depends on.

    Raises:
        InputError: for a problem that the rule cannot differentiate.

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
