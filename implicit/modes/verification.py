"""Verify candidate fixed points in parallel: solve every token anew from its start, with the states given."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from implicit.fixed_point import Dependence, Solver, Stopping
from implicit.fixed_point.loop import IterationState, change_of
from implicit.modes.recurrence import Inputs, Recurrence
from theory.transition import State


@dataclass(frozen=True)
class Candidates:
    """Consecutive tokens of some sequences, ``[sequences, tokens, …]``, with the candidates to verify."""

    latents: Tensor  # the candidates
    starts: Tensor  # z₀
    inputs: Inputs
    states: State  # before the tokens, as the candidates before them make them
    claimed: Tensor  # which tokens have a candidate; a prefix of each sequence
    asked: Tensor  # these, and one more where a token without a candidate has to be solved on its own


@dataclass(frozen=True)
class Verdict:
    """How far the candidates of each sequence are what the sequential mode finds, ``[sequences]`` each.

    ``last`` is the first token that was solved to something else than its candidate, or the last one asked
    for; ``replaced`` tells which; the next four are what was found there, ``evaluations`` those of every
    token.
    """

    last: Tensor
    replaced: Tensor
    latent: Tensor
    iterations: Tensor
    residual: Tensor
    status: Tensor
    evaluations: Tensor


def _image(recurrence: Recurrence, inputs: Inputs, states: State, latent: Tensor) -> Tensor:
    """Φ of latents ``[items, 1, features]``, each a token of its own."""
    return recurrence.advance(latent[:, 0], inputs, states)[0][:, None]


def verify(
    recurrence: Recurrence,
    candidates: Candidates,
    solver: Solver,
    stopping: Stopping,
    agreement: float,
    burst: int,
) -> Verdict:
    """Solve the tokens anew, all at the same time, and find the first whose solution is not the candidate.

    By induction the candidates before it are the answer of the sequential mode: the first token has the right
    state; where a token's state is right and its solution is the candidate, the next token's state is right.
    The token itself is solved with the right state, so its solution is that answer too.

    Tokens that are done, and those behind a token that was solved to something else, are not evaluated again;
    ``burst`` evaluations lie between two looks at what is done. A solution is the candidate if ‖z −
    candidate‖ ≤ agreement · (atol + rtol · ‖candidate‖). The solver must have no memory.
    """
    sequence, token = candidates.asked.nonzero(as_tuple=True)
    inputs = [tensor[sequence, token] for tensor in candidates.inputs]
    states = {name: tensor[sequence, token] for name, tensor in candidates.states.items()}
    candidate, claimed = candidates.latents[sequence, token], candidates.claimed[sequence, token]
    tolerance = agreement * (stopping.atol + stopping.rtol * candidate.norm(dim=-1))

    latent = candidates.starts[sequence, token][:, None]  # [items, 1, features]
    progress = IterationState.opened(latent)
    evaluations = torch.zeros_like(candidates.asked, dtype=torch.long)
    last = candidates.asked.sum(dim=1) - 1
    active = torch.arange(len(sequence), device=latent.device)
    for done in range(0, stopping.max_iterations, burst):
        z, part = latent[active], progress.select(active)
        there = [tensor[active] for tensor in inputs], {n: tensor[active] for n, tensor in states.items()}
        image = partial(_image, recurrence, *there)
        count = min(burst, stopping.max_iterations - done)
        for evaluation in range(done + 1, done + count + 1):
            change = change_of(z, image)
            part = part.after(z, change, stopping, Dependence.OWN)
            if evaluation == stopping.max_iterations:  # the residual is to belong to the value
                break
            following, _ = solver.step(z, change, part.active, None)
            z = part.advance(z, following)
        # Out of place: nothing that the caller holds is written to.
        latent, progress = latent.index_copy(0, active, z), progress.with_rows(active, part)
        evaluations[sequence[active], token[active]] += count
        agrees = claimed & progress.converged[:, 0] & ((latent[:, 0] - candidate).norm(dim=-1) <= tolerance)
        running = progress.active[:, 0] & (done + count < stopping.max_iterations)
        differs = ~running & ~agrees
        last = last.scatter_reduce(0, sequence[differs], token[differs], "amin")
        active = (running & (token <= last[sequence])).nonzero()[:, 0]
        if not len(active):
            break
    known = token == last[sequence]  # one item a sequence, in their order
    return Verdict(
        last,
        ~agrees[known],
        latent[known, 0],
        progress.iterations[known, 0],
        progress.residual[known, 0],
        progress.status[known, 0],
        evaluations,
    )
