"""Padding, wherever it stands: stacks read real tokens first, and to generate one pads on the left."""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.checks import check_type, shown
from automata.errors import InputError
from implicit.language.cache import SequenceState


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
    def of(
        cls, tokens: Tensor, attention_mask: Tensor | None, earlier: SequenceState | None = None
    ) -> "RealTokens":
        """Read a mask, of these tokens or of those read before as well.

        Args:
            tokens: ``[batch, length]``.
            attention_mask: 1 for real tokens and 0 for padding.
            earlier: what was read before; nothing if None.

        Raises:
            InputError: the tokens are not ``[batch, length]``, or the mask has another shape or other
                values, says otherwise of the tokens read before than the mask that they were read with, or
                leaves a sequence without a token.
        """
        if attention_mask is None:
            return cls()
        check_type("attention_mask", attention_mask, Tensor, "give a tensor of 0 and 1, [batch, length]")
        if not isinstance(tokens, Tensor) or tokens.ndim != 2:
            raise InputError(f"input_ids is {shown(tokens)}; give a tensor, [batch, length]")
        batch, length = tokens.shape
        seen = 0 if earlier is None else earlier.seen
        shapes = {(batch, length), (batch, seen + length)}
        if tuple(attention_mask.shape) not in shapes:
            raise InputError(
                f"attention_mask has shape {tuple(attention_mask.shape)}; give one entry for every token, "
                f"{' or '.join(map(str, sorted(shapes)))}"
            )
        if not bool(((attention_mask == 0) | (attention_mask == 1)).all()):
            raise InputError("attention_mask holds other values than 0 and 1; give 1 for real tokens")
        before, real = attention_mask.bool().split([attention_mask.shape[1] - length, length], dim=1)
        if earlier is not None and before.shape[1]:
            read = torch.ones_like(before) if earlier.mask is None else earlier.mask
            if not torch.equal(before, read):
                raise InputError(
                    "attention_mask says otherwise of tokens read before than the mask that they were read "
                    "with; read the whole text anew, without past_key_values"
                )
        if bool(real.all()):
            return cls()
        lengths = real.sum(1)
        if not bool(lengths.all()):
            row = int((lengths == 0).nonzero()[0])
            raise InputError(f"attention_mask has no real token in sequence {row}; read it in another batch")
        return cls(lengths, (~real).to(torch.int8).argsort(dim=1, stable=True), real)

    def read_so_far(self, tokens: Tensor, earlier: SequenceState | None) -> Tensor | None:
        """Return which tokens are real, those read before in front, ``[batch, seen]``; None where all are."""
        before = None if earlier is None else earlier.mask
        if before is None and self.mask is None:
            return None
        ones = torch.ones_like(tokens, dtype=torch.bool)
        if earlier is None:
            return self.mask
        if before is None:
            before = ones.new_ones(len(tokens), earlier.seen)
        return torch.cat([before, ones if self.mask is None else self.mask], dim=1)

    def first(self, values: Tensor) -> Tensor:
        """Return the values, ``[batch, length, …]``, those of real tokens first."""
        return values if self.order is None else _gathered(values, self.order)

    def back(self, values: Tensor) -> Tensor:
        """Return values in the order of `first`, ``[batch, length, …]``, to where their tokens stood."""
        if self.order is None:
            return values
        return _gathered(values, self.order.argsort(dim=1))

    def account(self, values: Tensor) -> Tensor:
        """Return what is told of every token, ``[batch, length]``, in the order of `first`, 0 at padding."""
        return values if self.mask is None else self.back(values).masked_fill(~self.mask, 0)


def _gathered(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(1, places.view(*places.shape, *[1] * (values.ndim - 2)).expand_as(values))
