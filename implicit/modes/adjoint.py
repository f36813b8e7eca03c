"""A recurrence as a fixed-point problem, with its gradient, and the adjoint system of all its tokens.

With J the derivative of all images in all latents, the implicit gradient needs v with (I − J)ᵀ v = g. An
image depends on its own latent and, through the state, on earlier ones: J is block triangular, and no block
outside its diagonal needs to be formed. From the last token to the first, with λ_t the adjoint of the state
after token t and all derivatives at the fixed point,

    v_t = (I − ∂zΦ_t)^{-T} (g_t + ∂zG_tᵀ λ_t)          λ_{t−1} = ∂sG_tᵀ λ_t + ∂sΦ_tᵀ v_t

so that λ is to this pass what the state is to the sequential mode, and nothing is iterated.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from implicit.fixed_point import AdjointSolution, Dependence, FixedPointProblem, Solver, Stopping
from implicit.gradients import GradientRule
from implicit.gradients.adjoint import with_gradient_of
from implicit.modes.recurrence import Inputs, ModeResult, Recurrence
from theory.transition import State

CACHED_ENTRIES = 2**18
"""The most entries of ∂zΦ that a CPU computes together: all of it on the way should stay in its cache."""
LAUNCHED_ENTRIES = 2**24
"""The same of an accelerator, where every launch has its price: 64 MiB in float32, some ten times that on the
way. Chosen by memory, not measured."""


@torch.no_grad()
def solve_adjoint(recurrence: Recurrence, latent: Tensor, gradient: Tensor) -> Tensor:
    """Return v with v = g + Jᵀ v, J the derivative of the images of all tokens in the latents of all tokens.

    The latents z are where to differentiate; they, ``gradient``, g, and v are ``[batch, tokens, features]``.
    A token whose I − ∂zΦ is singular gets a v that is not finite, and so do the tokens before it. Source: Bai
    et al. 2019, "Deep Equilibrium Models", arXiv 1909.01377, Theorem 1, for the system.
    """
    states = recurrence.states(latent, recurrence.inputs, recurrence.state)
    before = {name: tensor[:, :-1] for name, tensor in states.items()}
    factors, pivots = _factors(recurrence, latent, before)
    solution = torch.empty_like(gradient)
    adjoint: list[Tensor] | None = None  # λ, None for zero
    for t in reversed(range(latent.shape[1])):
        inputs = [tensor[:, t] for tensor in recurrence.inputs]
        with torch.enable_grad():
            leaf = latent[:, t].detach().requires_grad_()
            state = {name: tensor[:, t].detach() for name, tensor in before.items()}
            leaves = {
                name: part.requires_grad_()
                for name, part in state.items()
                if part.is_floating_point() or part.is_complex()
            }
            image, after = recurrence.advance(leaf, inputs, state)
        results, given = [image], [gradient[:, t]]
        if adjoint is not None:
            results += [after[name] for name in leaves]
            given[0] = given[0] + _transposed(results[1:], [leaf], adjoint)[0]
            given += adjoint
        right = given[0][..., None].to(factors)
        solution[:, t] = torch.linalg.lu_solve(factors[:, t], pivots[:, t], right, adjoint=True)[..., 0]
        given[0] = solution[:, t]
        adjoint = _transposed(results, list(leaves.values()), given)
    return solution


def _transposed(results: list[Tensor], leaves: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """The transposed derivative of the results in the leaves, applied to what is given."""
    dependent = [(result, v) for result, v in zip(results, given, strict=True) if result.requires_grad]
    if not (dependent and leaves):
        return [torch.zeros_like(leaf) for leaf in leaves]
    outputs, products = zip(*dependent, strict=True)
    return list(
        torch.autograd.grad(
            outputs, leaves, products, retain_graph=True, allow_unused=True, materialize_grads=True
        )
    )


def _factors(recurrence: Recurrence, latent: Tensor, before: State) -> tuple[Tensor, Tensor]:
    """The LU factors of I − ∂zΦ at every token, ``[batch, tokens, features, features]``, and their pivots."""
    batch, tokens, features = latent.shape
    flat = latent.flatten(0, 1)
    inputs = [tensor.flatten(0, 1) for tensor in recurrence.inputs]
    states = {name: tensor.flatten(0, 1) for name, tensor in before.items()}
    dtype = torch.promote_types(flat.dtype, torch.float32)  # half precision has no factors
    factors = flat.new_empty(len(flat), features, features, dtype=dtype)
    pivots = torch.empty(len(flat), features, dtype=torch.int32, device=flat.device)
    identity = torch.eye(features, dtype=dtype, device=flat.device)
    count = tokens_together(flat.device, features)
    for start in range(0, len(flat), count):
        part = slice(start, start + count)
        here = [tensor[part] for tensor in inputs], {name: tensor[part] for name, tensor in states.items()}
        if recurrence.derivative is None:
            slope = _by_rows(recurrence, flat[part], *here)
        else:
            slope = recurrence.derivative(flat[part], *here)
        factors[part], pivots[part], _ = torch.linalg.lu_factor_ex(identity - slope)
    return factors.unflatten(0, (batch, tokens)), pivots.unflatten(0, (batch, tokens))


def tokens_together(device: torch.device, features: int) -> int:
    """Return for how many tokens ∂zΦ is computed at once."""
    entries = CACHED_ENTRIES if device.type == "cpu" else LAUNCHED_ENTRIES
    return max(1, entries // features**2)


def _by_rows(recurrence: Recurrence, latent: Tensor, inputs: Inputs, state: State) -> Tensor:
    """∂zΦ of single tokens, ``[tokens, features, features]``, a row for each backward pass."""
    with torch.enable_grad():
        leaf = latent.detach().requires_grad_()
        image = recurrence.advance(leaf, inputs, state)[0]
    identity = torch.eye(image.shape[1], dtype=image.dtype, device=image.device)
    rows = [_transposed([image], [leaf], [row.expand_as(image)])[0] for row in identity]
    return torch.stack(rows, dim=1)


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
