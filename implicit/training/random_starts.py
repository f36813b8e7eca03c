"""Random latents for the search of a fixed point to begin from, in training.

Started from zero, training asks for one right fixed point per token and says nothing of others, in which the
simultaneous mode may end. From random starts the loss itself asks that every start leads to the right answer.
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
    direction = torch.randn(shape, generator=generator)
    length = torch.rand((*shape[:2], 1), generator=generator) * shape[2] ** 0.5
    return direction / direction.norm(dim=-1, keepdim=True) * length


def some_random_starts(
    shape: tuple[int, int, int], share: float, generator: torch.Generator | None = None
) -> Tensor:
    """Draw, for each sequence with a probability, random latents for all its tokens; zeros else.

    Args:
        shape: batch, tokens and features.
        share: the probability.
        generator: draws both.

    Returns:
        Float32, on the CPU.

    Example:
        >>> drawn = some_random_starts((1000, 2, 4), 0.5, torch.Generator().manual_seed(0))
        >>> 450 < int((drawn != 0).all(dim=-1).all(dim=-1).sum()) < 550
        True
    """
    latents = random_latents(shape, generator)
    chosen = torch.rand((shape[0], 1, 1), generator=generator) < share
    return latents * chosen
