"""Prompts of a model whose state grows: all tokens together, then verified against the sequential mode.

Solved together, a token begins on a wrong state and may end at another fixed point than the sequential mode.
So every token is solved once more on its own, behind the keys and values of those before it. By induction the
tokens before the first that ends elsewhere have the answer of the sequential mode, which reads the rest.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from implicit.cells import AttentionCell
from implicit.cells.interface import has_hooks
from implicit.fixed_point import Dependence, FixedPointProblem
from implicit.fixed_point import solve as solve_alone
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import ModelOutput
from implicit.models.stack import of_layer
from implicit.modes import Solve, Windowed
from theory.transition import State

WINDOWS = Windowed()
"""A token passes if both solutions are as near as the windowed mode asks for."""


def read_prompt(
    model: ImplicitModel, tokens: Tensor, state: State | None, solve: Solve, lengths: Tensor | None
) -> ModelOutput:
    """Find the answer of the sequential mode, where the verification passes in the time of the simultaneous.

    With hooks on the cells, all `AttentionCell`, or a tolerance that is absolute or above 0.001, the model
    reads token by token. The mode of ``solve`` does not count. The evaluations include those of the
    verification.
    """
    sequential = replace(solve, mode="sequential")
    stopping = solve.stopping or model.stopping
    exact = WINDOWS.tells_apart(stopping, model.embedding.weight)
    if not exact or any(has_hooks(cell) for cell in model.cells):
        return model.run(tokens, state, sequential, lengths=lengths)
    begin = model.begin(tokens, state, lengths)[1]
    together = replace(solve, mode="simultaneous", state_after=True)
    found = model.run(tokens, state, together, lengths=lengths)
    assert found.solution is not None
    with torch.no_grad():
        passed, evaluations = _verified(model, tokens, state, solve, lengths, found)
    evaluations = found.solution.evaluations + evaluations
    found = replace(found, solution=replace(found.solution, mode="sequential", evaluations=evaluations))
    read = passed.long().cumprod(1).sum(1)  # tokens of each row before the first that did not pass
    rows = (read < tokens.shape[1]).nonzero().flatten()
    if len(rows):  # all of them together, from the earliest on
        token = int(read.min())
        before = {
            # rows may begin at different positions; keys and values are those of the tokens before
            name: begin[name][rows] + token
            if name.startswith("position")
            else part[rows, : begin[name].shape[1] + token]
            for name, part in found.state.items()
        }
        start = None if solve.start is None else solve.start[rows, token:]
        again = model.run(
            tokens[rows, token:],
            before,
            replace(sequential, start=start, state_after=True),
            lengths=None if lengths is None else lengths[rows] - token,
        )
        found = _with_end(found, again, rows, token)
    return found if solve.state_after else replace(found, state={})


def _verified(
    model: ImplicitModel,
    tokens: Tensor,
    state: State | None,
    solve: Solve,
    lengths: Tensor | None,
    found: ModelOutput,
) -> tuple[Tensor, Tensor]:
    """Which tokens have, behind those before them, the solution found; and the evaluations it took to see."""
    tokens, state, mask = model.begin(tokens, state, lengths)
    injections = model._inject(tokens)
    cells = [cell for cell in model.cells if isinstance(cell, AttentionCell)]

    def image(latent: Tensor) -> Tensor:
        stream = latent
        for layer, (cell, norm) in enumerate(zip(cells, model.norms, strict=True)):
            parts = of_layer(state, layer), of_layer(found.state, layer), injections[layer]
            stream = model._after_cell(stream, cell.alone(norm(stream), *parts), layer)
        image = model.latent_norm(stream)
        return image if mask is None else image.masked_fill(~mask[..., None], 0)

    assert found.solution is not None
    candidate, stopping = found.solution.latents, solve.stopping or model.stopping
    start = torch.zeros_like(candidate) if solve.start is None else solve.start
    problem = FixedPointProblem(image, Dependence.OWN)
    own = solve_alone(problem, solve.solver or model.solver, stopping, start)
    stopping = stopping.resolved_by(candidate)
    near = WINDOWS.agreement * (stopping.atol + stopping.rtol * candidate.norm(dim=-1))
    passed = found.solution.converged & own.converged & ((own.value - candidate).norm(dim=-1) <= near)
    return (passed if mask is None else passed | ~mask), own.iterations


def _with_end(found: ModelOutput, end: ModelOutput, rows: Tensor, token: int) -> ModelOutput:
    """Put what was found of the ends of some sequences, from a token on, into the batch."""
    assert found.solution is not None
    assert end.solution is not None

    def put(whole: Tensor, part: Tensor) -> Tensor:
        return whole.index_copy(0, rows, torch.cat([whole[rows, :token], part], dim=1))

    names = ("value", "iterations", "residual", "status", "evaluations")
    changed: Any = {name: put(getattr(found.solution, name), getattr(end.solution, name)) for name in names}
    state = {name: part.index_copy(0, rows, end.state[name]) for name, part in found.state.items()}
    return ModelOutput(put(found.logits, end.logits), state, replace(found.solution, **changed))
