"""A penalty that draws latents from everywhere to the fixed point, and not only those near it.

A self-map that contracts around its fixed point may have others elsewhere, and in the simultaneous mode the
states that pass by may throw a latent anywhere. What every start tends to the same answer takes is attraction
of all latents that the last norm can give (Theorem 2 of docs/when_modes_agree.md).
"""

import torch
from torch import Tensor

from implicit.models.interface import FixedPointModel
from implicit.training.random_starts import random_latents
from theory.transition import State

SAMPLES = 8
"""Latents that are drawn per token, the worst of which counts."""
LEAST_DISTANCE = 0.1
"""Squared; from nearer latents the penalty does not ask for more, as a tolerance lies between them."""


def attraction_penalty(
    model: FixedPointModel,
    tokens: Tensor,
    state: State,
    latents: Tensor,
    generator: torch.Generator | None = None,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Estimate how much farther than it was the image of a random latent may be from the fixed point.

    With z* the fixed point of a token at the state before it and z drawn from the ball of radius √d, its
    direction and its length uniform, the mean over tokens of the largest of some ‖Φ(z) − Φ(z*)‖² / ‖z − z*‖².
    Where that is below 1 at all z, all of them tend to z*.

    Args:
        model: an implicit model, whose latents have entries of order 1.
        tokens: int64, ``[batch, length]``.
        state: before the first token.
        latents: fixed points of these tokens from this state, without gradient.
        generator: draws z.
        lengths: real tokens per sequence, as `run` takes them.
        mask: the tokens that the mean is over, ``[batch, length]``, bool; all if None.

    Returns:
        A scalar, differentiable in the parameters of Φ.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> model, tokens = load_run("parity-small").model.implicit, torch.tensor([[0, 1, 1, 0]])
        >>> noise, state = torch.Generator().manual_seed(0), model.init_state(1)
        >>> with torch.no_grad():
        ...     latents = model.run(tokens).solution.latents
        ...     penalty = attraction_penalty(model, tokens, state, latents, noise)
        >>> bool(0 < penalty < 1)
        True
    """
    size = latents.shape[-1]
    with torch.no_grad():
        visited = model.states_at(tokens, latents, state, lengths)
    # every token a sequence of its own, from the state that is before it
    alone = {name: part[:, :-1].flatten(0, 1).repeat_interleave(SAMPLES, 0) for name, part in visited.items()}
    problem = model.problem(tokens.reshape(-1, 1).repeat_interleave(SAMPLES, 0), alone)
    fixed = latents.reshape(-1, 1, size).repeat_interleave(SAMPLES, 0)
    drawn = random_latents((len(fixed), 1, size), generator).to(fixed)
    change = (problem.function(drawn) - problem.function(fixed)).square().sum(-1)
    ratio = change / (drawn - fixed).square().sum(-1).clamp_min(LEAST_DISTANCE)
    worst = ratio.reshape(*latents.shape[:2], SAMPLES).amax(-1)
    return worst.mean() if mask is None else worst[mask].mean()
