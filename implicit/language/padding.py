"""Padding, wherever it stands: stacks read real tokens first, and to generate one pads on the left."""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError


@dataclass(frozen=True)
class RealTokens:
    """Which tokens of a batch are real, and where each goes when they are moved to the front.

    Attributes:
        lengths: real tokens of each sequence, ``[batch]``; None where all are.
        order: for each place the token that comes to stand there, ``[batch, length]``; None likewise.
        mask: which are real, bool ``[batch, length]``; None likewise.

    Example:
        >>> tokens = torch.tensor([[0, 0, 7, 8], [5, 6, 7, 8]])
        >>> real = RealTokens.of(tokens, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]]))
        >>> real.first(tokens).tolist(), real.lengths.tolist()
        ([[7, 8, 0, 0], [5, 6, 7, 8]], [2, 4])
        >>> bool((real.back(real.first(tokens)) == tokens).all())
        True
    """

    lengths: Tensor | None = None
    order: Tensor | None = None
    mask: Tensor | None = None

    @classmethod
    def of(cls, tokens: Tensor, attention_mask: Tensor | None) -> "RealTokens":
        """Read a mask, of these tokens or of those read before as well.

        Raises:
            InputError: the mask has another shape, or leaves a sequence without a token.
        """
        if attention_mask is None:
            return cls()
        batch, length = tokens.shape
        if attention_mask.ndim != 2 or len(attention_mask) != batch or attention_mask.shape[1] < length:
            raise InputError(
                f"attention_mask has shape {tuple(attention_mask.shape)}; give one entry for every token, "
                f"{(batch, length)}"
            )
        real = attention_mask[:, -length:].bool()
        if bool(real.all()):
            return cls()
        lengths = real.sum(1)
        if not bool(lengths.all()):
            row = int((lengths == 0).nonzero()[0])
            raise InputError(f"attention_mask has no real token in sequence {row}; leave it out of the batch")
        return cls(lengths, (~real).to(torch.int8).argsort(dim=1, stable=True), real)

    def first(self, values: Tensor) -> Tensor:
        """Return the values, ``[batch, length]``, those of real tokens first."""
        return values if self.order is None else values.gather(1, self.order)

    def back(self, values: Tensor) -> Tensor:
        """Return values in the order of `first`, ``[batch, length, …]``, to where their tokens stood."""
        if self.order is None:
            return values
        places = self.order.argsort(dim=1)
        places = places.view(*places.shape, *[1] * (values.ndim - 2)).expand_as(values)
        return values.gather(1, places)

    def account(self, values: Tensor) -> Tensor:
        """Return what is told of every token, ``[batch, length]``, in the order of `first`, 0 at padding."""
        return values if self.mask is None else self.back(values).masked_fill(~self.mask, 0)
