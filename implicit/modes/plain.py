"""The two plain modes: all tokens together, and one after the other."""

import torch
from torch import Tensor

from implicit.fixed_point import Solution, Solver, Stopping
from implicit.gradients import GradientRule, solve_with_gradient
from implicit.modes.adjoint import differentiated, sequence_problem, token_problem
from implicit.modes.recurrence import ModeResult, Recurrence


def solve_simultaneously(
    recurrence: Recurrence,
    solver: Solver,
    stopping: Stopping,
    gradient: GradientRule,
    start: Tensor,
    *,
    state_after: bool = True,
) -> ModeResult:
    """Iterate all tokens of all sequences together until the last of them is done.

    The state after the last token takes one more evaluation; without ``state_after`` that of the result is
    empty.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import Phantom
        >>> recurrence = Recurrence(
        ...     [torch.tensor([[[1.0], [2.0]]])], {},
        ...     sweep=lambda z, x, s: ((x[0] + z) / 2, s),
        ...     advance=lambda z, x, s: ((x[0] + z) / 2, s),
        ...     states=lambda z, x, s: s,
        ... )
        >>> arguments = recurrence, DampedPicard(1.0), Stopping(rtol=0.1), Phantom(), torch.zeros(1, 2, 1)
        >>> result = solve_simultaneously(*arguments)  # 4 to the tolerance, 1 for the state
        >>> result.solution.value.flatten().tolist(), result.evaluations.tolist()
        ([0.875, 1.75], [[5, 5]])
    """
    found = solve_with_gradient(sequence_problem(recurrence), solver, stopping, start, gradient)
    after = recurrence.sweep(found.value, recurrence.inputs, recurrence.state)[1] if state_after else {}
    return ModeResult(found, after, (found.iterations.max() + state_after).expand_as(found.iterations))


def solve_sequentially(
    recurrence: Recurrence,
    solver: Solver,
    stopping: Stopping,
    gradient: GradientRule,
    start: Tensor,
    *,
    chained: bool = True,
    state_after: bool = True,
) -> ModeResult:
    """Solve token after token, each from its own start with the state that the last one left.

    With ``chained`` the gradient goes from solve to solve; otherwise it is that of all tokens together.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import Phantom
        >>> recurrence = Recurrence(
        ...     [torch.tensor([[[1.0], [0.0]]])], {},
        ...     sweep=lambda z, x, s: ((x[0] + z) / 2, s),
        ...     advance=lambda z, x, s: ((x[0] + z) / 2, s),
        ...     states=lambda z, x, s: s,
        ... )
        >>> arguments = recurrence, DampedPicard(1.0), Stopping(rtol=0.1), Phantom(), torch.zeros(1, 2, 1)
        >>> result = solve_sequentially(*arguments)
        >>> result.solution.value.flatten().tolist(), result.evaluations.tolist()
        ([0.875, 0.0], [[5, 2]])
    """
    if not chained:
        with torch.no_grad():
            result = solve_sequentially(recurrence, solver, stopping, gradient, start)
        return differentiated(recurrence, solver, stopping, gradient, result, state_after=state_after)
    solutions, state = [], recurrence.state
    reached = torch.ones(len(start), 1, dtype=torch.bool, device=start.device)
    for t in range(start.shape[1]):
        inputs = [tensor[:, t] for tensor in recurrence.inputs]
        problem = token_problem(recurrence, inputs, state)
        solution = solve_with_gradient(problem, solver, stopping, start[:, t : t + 1], gradient)
        state = recurrence.advance(solution.value[:, 0], inputs, state)[1]
        solutions.append(solution.after(reached))
        reached = solutions[-1].converged
    found = Solution.concatenate(solutions)
    evaluations = (found.iterations.amax(dim=0) + 1).expand_as(found.iterations)
    return ModeResult(found, state, evaluations)
