"""Layers that cells are made of: norms, MLP, short convolution with its window, decay."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.cells.interface import check_at_least_one, has_hooks
from implicit.cells.plain import project
from implicit.ops.linear import linear
from implicit.ops.norm_factor import norm_factor, widened
from implicit.ops.short_convolution import short_convolution


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + ε) · weight over the last axis (Zhang & Sennrich 2019, arXiv 1910.07467).

    Example:
        >>> RMSNorm(2)(torch.tensor([3.0, 4.0])).square().mean().item()
        0.9999...
    """

    def __init__(self, features: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``[..., features]``."""
        return _normalised(x, self.epsilon) * self.weight

    def push_forward(self, x: Tensor, along: Tensor) -> Tensor:
        """Return the derivative at x applied to columns v: weight · r (v − x r² mean(x v)), r the factor."""
        factor = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon)
        means = (x[..., None, :] @ along) / x.shape[-1]  # [..., 1, columns]
        return (along - (x * factor.square())[..., None] * means) * (self.weight * factor)[..., None]


class GatedRMSNorm(nn.Module):
    """RMSNorm(x · silu(gate)) · weight, normalised within each group of features: the norm inside Mamba-2.

    Source: Dao & Gu 2024, arXiv 2405.21060; ``RMSNormGated`` of mamba_ssm with ``norm_before_gate=False``.

    Example:
        >>> norm = GatedRMSNorm(4, groups=2)
        >>> norm(torch.ones(4), torch.full((4,), 2.0))
        tensor([1.0000, 1.0000, 1.0000, 1.0000], grad_fn=<MulBackward0>)
    """

    def __init__(self, features: int, groups: int = 1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Gate and normalise ``[..., features]``."""
        gated = x * functional.silu(gate)
        if self.groups == 1:
            return _normalised(gated, self.epsilon) * self.weight
        return _normalised(gated.unflatten(-1, (self.groups, -1)), self.epsilon).flatten(-2) * self.weight


def _normalised(x: Tensor, epsilon: float) -> Tensor:
    wide = widened(x)
    normal = wide * norm_factor(wide.square().mean(dim=-1, keepdim=True), epsilon)
    return normal if wide is x else normal.to(x.dtype)


def unit_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Compute x / sqrt(Σ x² + ε) over the last axis, as DeltaNet normalises; a key of zeros stays one."""
    wide = widened(x)
    unit = wide * unit_norm_factor(wide, epsilon)
    return unit if wide is x else unit.to(x.dtype)


def unit_norm_factor(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return what `unit_norm` multiplies by, with a last axis of one."""
    return norm_factor(x.square().sum(dim=-1, keepdim=True), epsilon)


class SwiGLU(nn.Module):
    """W_out (silu(W_gate x) · W_up x), with ``hidden`` features in between (Shazeer 2020, arXiv 2002.05202).

    InputError for sizes below 1.

    Example:
        >>> import torch
        >>> SwiGLU(8, hidden=16)(torch.ones(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, hidden=hidden)
        self.in_proj = nn.Linear(d_model, 2 * hidden, bias=False)  # rows: gate, up
        self.out_proj = nn.Linear(hidden, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[..., d_model]`` token by token."""
        gate, up = project(self.in_proj, x).chunk(2, dim=-1)
        return project(self.out_proj, functional.silu(gate) * up)

    def push_forward(self, x: Tensor, along: Tensor) -> Tensor:
        """Return the derivative at x applied to columns, ``[..., d_model, columns]``."""
        gate, up = linear(x, self.in_proj.weight).chunk(2, dim=-1)
        along_gate, along_up = (self.in_proj.weight @ along).chunk(2, dim=-2)
        product = (silu_slope(gate) * up)[..., None] * along_gate
        product = product + functional.silu(gate)[..., None] * along_up
        return self.out_proj.weight @ product


class NormedMLP(nn.Sequential):
    """A norm and a `SwiGLU`: code that reads weights knows them here, and in no other `nn.Sequential`."""


def silu_slope(x: Tensor) -> Tensor:
    """Return the derivative of silu."""
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))


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


class Decay(nn.Module):
    """The logarithm of a decay per head, as in Mamba-2: log α = −exp(A_log) softplus(x + step_bias)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.empty(heads).uniform_(1, 16)))
        self.step_bias = nn.Parameter(initial_step_bias(heads))

    def forward(self, x: Tensor) -> Tensor:
        """Return the log decays of ``[..., heads]``."""
        return -torch.exp(self.A_log) * functional.softplus(x + self.step_bias)

    def slope(self, x: Tensor) -> Tensor:
        """Return the derivative of the log decays of ``[..., heads]``, each in its own input."""
        return -torch.exp(self.A_log) * torch.sigmoid(x + self.step_bias)


def initial_step_bias(heads: int, smallest: float = 1e-3, largest: float = 0.1) -> Tensor:
    """Return the inverse softplus of step sizes drawn log-uniformly, the initialisation of mamba_ssm."""
    steps = torch.exp(torch.rand(heads) * (math.log(largest) - math.log(smallest)) + math.log(smallest))
    return steps + torch.log(-torch.expm1(-steps))
