"""The Mamba-2 cell with additive input injection.

| code                | paper          | meaning                                                            |
|---------------------|----------------|--------------------------------------------------------------------|
| ``inputs``          | u              | ``[batch, length, d_model]``; of an implicit model norm(z)          |
| ``injection``       |                | ``[batch, length, d_in_proj]``, added to the input projection      |
| ``z`` (in_proj)     | gate           | ``[…, d_inner]``                                                   |
| ``x``               | X              | ``[…, heads, head_size]``                                          |
| ``B``, ``C``        | B, C           | ``[…, groups, d_state]``                                           |
| ``dt``, ``A_log``, ``D`` | Δ, log(−A), D | one a head                                                    |
| ``state.window``    |                | last inputs of the convolution, ``[batch, channels, d_conv − 1]``  |
| ``state.ssm``       | h              | ``[batch, heads, head_size, d_state]``                             |

The injection reaches gate, x, B, C and Δ at once. Parameters have the names and shapes of
``mamba_ssm.modules.mamba2.Mamba2``, so that state dicts map one to one (Dao & Gu 2024, arXiv 2405.21060).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from automata.errors import InputError
from implicit.cells.norm import GatedRMSNorm
from implicit.ops.gated_norm import gated_norm
from implicit.ops.linear import linear
from implicit.ops.short_convolution import short_convolution
from implicit.ops.ssd import ssd, ssd_states, ssd_step


class CellState(NamedTuple):
    """What a Mamba-2 cell carries from token to token.

    Example:
        >>> Mamba2Cell(d_model=8, head_size=4, d_state=2).init_state(3).ssm.shape
        torch.Size([3, 4, 4, 2])
    """

    window: Tensor
    ssm: Tensor


class Mamba2Cell(nn.Module):
    """in_proj (+ injection) → short causal convolution → SSD scan with Δ, A, D → gated RMSNorm → out_proj.

    Args:
        d_model: features of the input and the output.
        d_state: state size per head and channel.
        d_conv: width of the short convolution; 1 leaves no window between tokens.
        expand: d_inner = expand · d_model.
        head_size: channels a head; divides d_inner.
        groups: groups that share B and C; divides the number of heads.
        backend: backend of the SSD scan.

    Raises:
        InputError: for sizes below 1 or that do not divide.

    Example:
        Both forms give the same outputs.

        >>> cell = Mamba2Cell(d_model=8, head_size=4, d_state=2)
        >>> inputs = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
        >>> outputs, _ = cell(inputs)
        >>> state, steps = cell.init_state(1), []
        >>> for t in range(5):
        ...     output, state = cell.step(inputs[:, t], state)
        ...     steps.append(output)
        >>> torch.allclose(outputs, torch.stack(steps, 1), atol=1e-6)
        True
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 128,
        d_conv: int = 4,
        expand: int = 2,
        head_size: int = 64,
        groups: int = 1,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.d_inner = expand * d_model
        sizes = {
            "d_model": d_model,
            "d_state": d_state,
            "d_conv": d_conv,
            "expand": expand,
            "head_size": head_size,
            "groups": groups,
        }
        for name, size in sizes.items():
            if size < 1:
                raise InputError(f"{name} is {size}; give at least 1")
        if self.d_inner % head_size:
            raise InputError(f"head_size is {head_size}; it must divide expand * d_model = {self.d_inner}")
        self.heads = self.d_inner // head_size
        if self.heads % groups:
            raise InputError(f"groups is {groups}; it must divide the number of heads, {self.heads}")
        self.d_state, self.d_conv, self.head_size, self.groups = d_state, d_conv, head_size, groups
        self.backend = backend
        self.conv_channels = self.d_inner + 2 * groups * d_state
        self.d_in_proj = self.d_inner + self.conv_channels + self.heads

        self.in_proj = nn.Linear(d_model, self.d_in_proj, bias=False)
        self.conv1d = nn.Conv1d(self.conv_channels, self.conv_channels, d_conv, groups=self.conv_channels)
        self.dt_bias = nn.Parameter(_initial_dt_bias(self.heads))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.heads).uniform_(1, 16)))
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = GatedRMSNorm(self.d_inner, groups=groups)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    @property
    def conv_bias(self) -> Tensor:
        """The bias of the short convolution, ``[channels]``."""
        assert self.conv1d.bias is not None  # optional only in the type that torch gives it
        return self.conv1d.bias

    def init_state(self, batch_size: int) -> CellState:
        """Return the zero state for a batch; the SSM state is kept in float32 or wider."""
        weight = self.in_proj.weight
        return CellState(
            window=weight.new_zeros(batch_size, self.conv_channels, self.d_conv - 1),
            ssm=weight.new_zeros(
                batch_size,
                self.heads,
                self.head_size,
                self.d_state,
                dtype=torch.promote_types(weight.dtype, torch.float32),
            ),
        )

    def forward(
        self, inputs: Tensor, injection: Tensor | None = None, state: CellState | None = None
    ) -> tuple[Tensor, CellState]:
        """Run the cell over whole sequences.

        Args:
            inputs: ``[batch, length, d_model]``.
            injection: ``[batch, length, d_in_proj]``, added to the input projection; nothing if None.
            state: the state before the first token; zero if None.

        Returns:
            Outputs, ``[batch, length, d_model]``, and the state after the last token.
        """
        batch, length = inputs.shape[:2]
        gate, channels, dt = self._project(inputs, injection)
        before = (
            inputs.new_zeros(batch, self.d_conv - 1, self.conv_channels) if state is None else state.window.mT
        )
        padded = torch.cat([before, channels], dim=1)  # [batch, d_conv - 1 + length, conv_channels]
        x, B, C = self._split(self._convolve(padded))
        y, ssm = ssd(
            x, dt, -torch.exp(self.A_log), B, C, None if state is None else state.ssm, backend=self.backend
        )
        normalised = gated_norm(y, x, self.D, gate, self.norm.weight, self.norm.groups, self.norm.epsilon)
        outputs = linear(normalised, self.out_proj.weight)
        return outputs, CellState(padded[:, length:].mT, ssm)

    def states(
        self, inputs: Tensor, injection: Tensor | None = None, state: CellState | None = None
    ) -> CellState:
        """Return the state before every token and after the last, without computing the outputs.

        Args:
            inputs: ``[batch, length, d_model]``.
            injection: ``[batch, length, d_in_proj]``, added to the input projection; nothing if None.
            state: the state before the first token; zero if None.

        Returns:
            Windows, ``[batch, length + 1, channels, d_conv − 1]``, and SSM states,
            ``[batch, length + 1, heads, head_size, d_state]``.
        """
        before = self.init_state(len(inputs)) if state is None else state
        _, channels, dt = self._project(inputs, injection)
        padded = torch.cat([before.window.mT, channels], dim=1)
        x, B, _ = self._split(self._convolve(padded))
        windows = padded.unfold(1, self.d_conv - 1, 1)
        return CellState(windows, ssd_states(x, dt, -torch.exp(self.A_log), B, before.ssm))

    def step(
        self, inputs: Tensor, state: CellState, injection: Tensor | None = None
    ) -> tuple[Tensor, CellState]:
        """Run the cell on one token.

        Args:
            inputs: ``[batch, d_model]``.
            state: the state before the token.
            injection: ``[batch, d_in_proj]``; nothing if None.

        Returns:
            Output, ``[batch, d_model]``, and the state after the token.
        """
        gate, channels, dt = self._project(inputs, injection)
        window = torch.cat([state.window, channels[..., None]], dim=-1)  # [batch, conv_channels, d_conv]
        convolved = (window * self.conv1d.weight[:, 0]).sum(-1) + self.conv_bias
        x, B, C = self._split(functional.silu(convolved))
        heads_per_group = self.heads // self.groups
        B, C = (part.repeat_interleave(heads_per_group, dim=-2) for part in (B, C))  # [batch, heads, d_state]
        ssm = ssd_step(x, dt, -torch.exp(self.A_log), B, state.ssm)
        y = (ssm * C[..., None, :]).sum(-1).to(x.dtype) + self.D[:, None] * x
        return linear(self.norm(y.flatten(-2), gate), self.out_proj.weight), CellState(window[..., 1:], ssm)

    def _convolve(self, padded: Tensor) -> Tensor:
        """The short convolution with its activation, of channels that the window is prepended to."""
        return short_convolution(padded, self.conv1d.weight[:, 0], self.conv_bias)

    def _project(self, inputs: Tensor, injection: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Gate, convolution channels and Δ, from the input projection plus the injection."""
        projected = linear(inputs, self.in_proj.weight)
        if injection is not None:
            projected = projected + injection
        gate, channels, dt = projected.split([self.d_inner, self.conv_channels, self.heads], dim=-1)
        return gate, channels, functional.softplus(dt + self.dt_bias)

    def _split(self, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x, B and C from the convolved channels."""
        shared = self.groups * self.d_state
        x, B, C = channels.split([self.d_inner, shared, shared], dim=-1)
        return (
            x.unflatten(-1, (self.heads, self.head_size)),
            B.unflatten(-1, (self.groups, self.d_state)),
            C.unflatten(-1, (self.groups, self.d_state)),
        )


def _initial_dt_bias(heads: int, smallest: float = 1e-3, largest: float = 0.1) -> Tensor:
    """Inverse softplus of step sizes drawn log-uniformly, the initialisation of mamba_ssm."""
    dt = torch.exp(torch.rand(heads) * (math.log(largest) - math.log(smallest)) + math.log(smallest))
    return dt + torch.log(-torch.expm1(-dt))
