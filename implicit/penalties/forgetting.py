"""A penalty that makes a model forget a disturbance of its state: its state-to-state map then contracts.

Cross-entropy asks for the same answers only: states that stand for one state of the automaton may drift apart
until, in long sequences, the answers do. Where they come together, finitely many small sets hold all that can
be reached, as a proof for sequences of every length needs.
"""

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from implicit.modes import Solve
from implicit.penalties.interface import Penalty, Solved

LARGEST_GROWTH = 50.0
"""A sequence counts with at most this much, lest one whose answer flips outweigh all others."""


SCALE = 0.2
"""Size of the disturbance, in the units of each part of the state."""


class Forgetting(Penalty):
    """How much of a random disturbance of the first state is left after each token.

    With s_t the states of the solution and s̃_t those from s₀ + ε v, v standard normal and ε the scale, the
    mean over sequences of Σ_{t≥1} ‖s̃_t − s_t‖² / ‖s̃₀ − s₀‖², over real tokens. A map that contracts by q
    per token gives at most q² / (1 − q²). Every named part of the state is measured in units of its root mean
    square in the last state of the solution. The undisturbed sequence carries no gradient: the disturbed one
    is drawn to it, found and differentiated as training does.

    Source: Miller & Hardt 2019, arXiv 1805.10369, who impose the stability on the weights.
    """

    after_learning = True
    evaluations = None

    weight: NonNegativeFloat = Field(
        default=0.0, description="weight of the forgetting penalty, where sequences may go on; 0 for none"
    )

    def measure(self, solved: Solved) -> Tensor:
        """Return the mean of what is left of a disturbance."""
        model, tokens, lengths = solved.model, solved.tokens, solved.lengths
        with torch.no_grad():
            undisturbed = model.states_at(tokens, solved.latents, solved.state, lengths)
            units = {
                name: part[:, -1].square().mean().sqrt().clamp_min(1e-6) for name, part in undisturbed.items()
            }
        start = {}
        for name, part in solved.state.items():
            drawn = torch.randn(part.shape, dtype=part.dtype, generator=solved.noise)
            start[name] = part + SCALE * units[name] * drawn.to(part.device)
        solve = Solve("simultaneous", stopping=solved.stopping, gradient=solved.gradient)
        disturbed = model.fixed_points(tokens, start, solve, lengths=lengths)
        left = torch.zeros((), device=tokens.device)
        for name, part in model.states_at(tokens, disturbed.latents, start, lengths).items():
            left = left + ((part - undisturbed[name]) / units[name]).flatten(2).square().sum(-1)
        shares = left[:, 1:] / left[:, :1]
        if disturbed.mask is not None:
            shares = shares.masked_fill(~disturbed.mask, 0)
        return shares.sum(dim=1).clamp(max=LARGEST_GROWTH).mean()


PENALTY = Forgetting
