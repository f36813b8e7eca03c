"""A recurrence as a fixed-point problem: of all tokens together, with their gradient, and of one token."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from implicit.fixed_point import AdjointSolution, Dependence, FixedPointProblem, Solver, Stopping
from implicit.gradients import GradientRule
from implicit.gradients.adjoint import with_gradient_of
from implicit.modes.adjoint import solve_adjoint
from implicit.modes.recurrence import Inputs, ModeResult, Recurrence
from theory.transition import State


def sequence_problem(recurrence: Recurrence) -> FixedPointProblem:
    """Return the fixed-point problem of all tokens together."""
    return FixedPointProblem(
        lambda z: recurrence.sweep(z, recurrence.inputs, recurrence.state)[0],
        Dependence.CAUSAL,
        solve_adjoint=partial(_solve_adjoint, recurrence),
    )


def differentiated(
    recurrence: Recurrence,
    solver: Solver,
    stopping: Stopping,
    gradient: GradientRule,
    result: ModeResult,
    *,
    state_after: bool,
) -> ModeResult:
    """Give what was found without gradient that of all tokens together; the values stay as they are.

    The gradient of the state after the last token, if it is wanted, takes one more evaluation.
    """
    if not torch.is_grad_enabled():
        return result if state_after else result._replace(state={})
    found = gradient.attach(sequence_problem(recurrence), solver, stopping, result.solution)
    if not state_after:
        return ModeResult(found, {}, result.evaluations)
    swept = recurrence.sweep(found.value, recurrence.inputs, recurrence.state)[1]
    state = {name: with_gradient_of(result.state[name], part) for name, part in swept.items()}
    return ModeResult(found, state, result.evaluations + 1)


def token_problem(recurrence: Recurrence, inputs: Inputs, state: State) -> FixedPointProblem:
    """Return the fixed-point problem of one token, given its inputs and the state before it."""
    alone = replace(recurrence, inputs=[tensor[:, None] for tensor in inputs], state=state, adjoint=None)
    return FixedPointProblem(
        lambda z: recurrence.advance(z[:, 0], inputs, state)[0][:, None],
        solve_adjoint=partial(_solve_adjoint, alone),
    )


def _solve_adjoint(recurrence: Recurrence, latent: Tensor, gradient: Tensor) -> AdjointSolution:
    """Solve it in the way that the recurrence offers, or by factors where it has none, or none here."""
    with recurrence.as_built():
        found = None if recurrence.adjoint is None else recurrence.adjoint(latent, gradient)
        return AdjointSolution(solve_adjoint(recurrence, latent, gradient), None) if found is None else found
