"""A penalty that makes a model forget a disturbance of its state: its state-to-state map then contracts.

Cross-entropy asks for the same answers only: states that stand for one state of the automaton may drift apart
until, in long sequences, the answers do. Where they come together, finitely many small sets hold all that can
be reached, as a proof for sequences of every length needs.
"""

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from implicit.fixed_point import Stopping
from implicit.gradients import GradientRule
from implicit.models.interface import FixedPointModel
from implicit.modes import SequenceSolution, Solve
from implicit.penalties.interface import Penalty, Solved
from theory.transition import State

LARGEST_GROWTH = 50.0
"""A sequence counts with at most this much, lest one whose answer flips outweigh all others."""


class Forgetting(Penalty):
    """The options of `forgetting_penalty`."""

    after_learning = True
    evaluations = None

    weight: NonNegativeFloat = Field(
        default=0.0, description="weight of the forgetting penalty, where sequences may go on; 0 for none"
    )

    def measure(self, solved: Solved) -> Tensor:
        """Return the mean of what is left of a disturbance."""
        return forgetting_penalty(
            solved.model,
            solved.tokens,
            solved.state,
            solved.solution,
            solved.gradient,
            solved.stopping,
            generator=solved.noise,
            lengths=solved.lengths,
        )


PENALTY = Forgetting


def forgetting_penalty(
    model: FixedPointModel,
    tokens: Tensor,
    state: State,
    solution: SequenceSolution,
    gradient: GradientRule,
    stopping: Stopping,
    scale: float = 0.2,
    generator: torch.Generator | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    """Measure how much of a random disturbance of the first state is left after each token.

    With s_t the states of the solution and s̃_t those from s₀ + ε v, v standard normal and ε the scale, the
    mean over sequences of Σ_{t≥1} ‖s̃_t − s_t‖² / ‖s̃₀ − s₀‖², over real tokens. A map that contracts by q
    per token gives at most q² / (1 − q²). Every named part of the state is measured in units of its root mean
    square in the last state of the solution. The undisturbed sequence carries no gradient: the disturbed one
    is drawn to it, found and differentiated by ``stopping`` and ``gradient``.

    Source: Miller & Hardt 2019, arXiv 1805.10369, who impose the stability on the weights.
    """
    with torch.no_grad():
        undisturbed = model.states_at(tokens, solution.latents, state, lengths)
        units = {
            name: part[:, -1].square().mean().sqrt().clamp_min(1e-6) for name, part in undisturbed.items()
        }
    start = {
        name: part
        + scale * units[name] * torch.randn(part.shape, dtype=part.dtype, generator=generator).to(part.device)
        for name, part in state.items()
    }
    solve = Solve("simultaneous", stopping=stopping, gradient=gradient)
    disturbed = model.run(tokens, start, solve, lengths=lengths).solution
    assert disturbed is not None
    left = torch.zeros((), device=tokens.device)
    for name, part in model.states_at(tokens, disturbed.latents, start, lengths).items():
        left = left + ((part - undisturbed[name]) / units[name]).flatten(2).square().sum(-1)
    shares = left[:, 1:] / left[:, :1]
    if disturbed.mask is not None:
        shares = shares.masked_fill(~disturbed.mask, 0)
    return shares.sum(dim=1).clamp(max=LARGEST_GROWTH).mean()
