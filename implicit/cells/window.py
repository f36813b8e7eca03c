"""The short causal convolution of a cell over sequences and single tokens, with its window carried on."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.cells.interface import has_hooks
from implicit.ops.short_convolution import short_convolution


class WindowConvolution(nn.Module):
    """silu of a causal convolution, each channel by itself, of the last ``width`` tokens.

    It has no bias, as in DeltaNet and its relatives. At width 1 it is silu alone, without a weight.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.channels, self.width = channels, width
        self.weight: nn.Parameter | None = None
        if width > 1:
            bound = width**-0.5  # what torch.nn.Conv1d starts with
            self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.register_buffer("_no_bias", torch.zeros(channels), persistent=False)

    def init_window(self, batch_size: int) -> Tensor:
        """Return the window before the first token: zeros, ``[batch, channels, width − 1]``."""
        return self.get_buffer("_no_bias").new_zeros(batch_size, self.channels, self.width - 1)

    def forward(self, x: Tensor, window: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Convolve ``[batch, length, channels]``; return the outputs and the window after the last token."""
        if self.weight is None:
            return functional.silu(x), window
        padded = torch.cat([window.mT, x], dim=1)
        outputs = short_convolution(padded, self.weight, self.get_buffer("_no_bias"))
        return outputs, last_tokens(padded, self.width - 1, mask)

    def step(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve one token, ``[batch, channels]``; return it and the window after it."""
        if has_hooks(self):
            outputs, window = self(x[:, None], window)
            return outputs[:, 0], window
        if self.weight is None:
            return functional.silu(x), window
        window = torch.cat([window, x[..., None]], dim=-1)
        return functional.silu((window * self.weight).sum(-1)), window[..., 1:]

    def before_activation(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `step` takes the silu of, ``[batch, channels]``, and its slope in x, ``[channels]``."""
        if self.weight is None:
            return x, torch.ones_like(self.get_buffer("_no_bias"))
        return (window * self.weight[:, :-1]).sum(-1) + x * self.weight[:, -1], self.weight[:, -1]


def last_tokens(padded: Tensor, width: int, mask: Tensor | None = None) -> Tensor:
    """Return the last tokens up to the last real one, channels before tokens, ``[batch, channels, width]``.

    ``padded`` has ``width`` tokens before the sequences and then these, ``[batch, width + length,
    channels]``.
    """
    if mask is None:
        return padded[:, padded.shape[1] - width :].mT
    places = mask.sum(1, keepdim=True) + torch.arange(width, device=mask.device)  # [batch, width]
    return padded.gather(1, places[..., None].expand(-1, -1, padded.shape[2])).mT


def windows_of(padded: Tensor, width: int, mask: Tensor | None = None) -> Tensor:
    """Return the windows before every token and after the last, ``[batch, length + 1, channels, width]``."""
    visited = padded.unfold(1, width, 1)
    if mask is None:
        return visited
    places = torch.arange(visited.shape[1], device=padded.device)
    places = torch.minimum(places, mask.sum(1, keepdim=True))  # [batch, length + 1]
    return visited[torch.arange(len(padded), device=padded.device)[:, None], places]
