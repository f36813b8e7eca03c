"""Latents from everywhere for the search of a fixed point to begin from, in training.

Started from zero, training asks for one right fixed point per token and says nothing of others, in which the
simultaneous mode may end. From other starts the loss itself asks that every start leads to the right answer.
The starts that matter most are latents of other answers, which random directions hardly ever come near.
"""

import torch
from torch import Tensor


def random_latents(shape: tuple[int, int, int], generator: torch.Generator | None = None) -> Tensor:
    """Draw latents from the ball of radius √d: all that the last RMS norm gives with weights of 1.

    Direction and length are uniform, so that latents near zero are not rare.

    Args:
        shape: batch, tokens and d, the features of a latent.
        generator: draws them.

    Returns:
        Float32, on the CPU.

    Example:
        >>> drawn = random_latents((64, 8, 32), torch.Generator().manual_seed(0))
        >>> lengths = drawn.norm(dim=-1) / 32**0.5
        >>> bool(lengths.max() < 1.0001), round(lengths.mean().item(), 1)
        (True, 0.5)
    """
    direction = torch.randn(shape, generator=generator, dtype=torch.float32)
    length = torch.rand((*shape[:2], 1), generator=generator, dtype=torch.float32) * shape[2] ** 0.5
    return direction / direction.norm(dim=-1, keepdim=True) * length


def starts_from_everywhere(latents: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Draw latents to start from: at random for half of the tokens, those of other tokens for half.

    Args:
        latents: fixed points that were found from zero, ``[batch, tokens, features]``.
        share: the probability, for each sequence, that its tokens do not start from zero.
        generator: draws.

    Returns:
        The starts, like ``latents``.

    Example:
        >>> latents = torch.full((50, 40, 4), 9.0)  # longer than a random latent may be
        >>> starts = starts_from_everywhere(latents, 1.0, torch.Generator().manual_seed(0))
        >>> round((starts == 9).all(dim=-1).double().mean().item(), 1)
        0.5
        >>> starts_from_everywhere(latents, 0.0).abs().max().item()
        0.0
    """
    batch, tokens, size = latents.shape
    drawn = random_latents((batch, tokens, size), generator).to(latents)
    order = torch.randperm(batch * tokens, generator=generator).to(latents.device)
    others = latents.flatten(0, 1)[order].view_as(latents)
    at_random = torch.rand((batch, tokens, 1), generator=generator, dtype=torch.float32).to(latents) < 0.5
    chosen = torch.rand((batch, 1, 1), generator=generator, dtype=torch.float32).to(latents) < share
    return torch.where(at_random, drawn, others) * chosen
