"""The Mamba-2 cell with additive input injection.

| code                | paper          | meaning                                                            |
|---------------------|----------------|--------------------------------------------------------------------|
| ``inputs``          | u              | ``[batch, length, d_model]``; of an implicit model norm(z)          |
| ``injection``       |                | ``[batch, length, d_in_proj]``, added to the input projection      |
| ``z`` (in_proj)     | gate           | ``[…, d_inner]``                                                   |
| ``x``               | X              | ``[…, heads, head_size]``                                          |
| ``B``, ``C``        | B, C           | ``[…, groups, d_state]``                                           |
| ``dt``, ``A_log``, ``D`` | Δ, log(−A), D | one per head                                                  |
| ``state["conv"]``   |                | last inputs of the convolution, ``[batch, channels, d_conv − 1]``  |
| ``state["ssm"]``    | h              | ``[batch, heads, head_size, d_state]``                             |

The injection reaches gate, x, B, C and Δ at once. Parameters have the names and shapes of
``mamba_ssm.modules.mamba2.Mamba2``, so that state dicts map one to one (Dao & Gu 2024, arXiv 2405.21060).
"""

from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from automata.checks import by_known_names
from automata.errors import InputError
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.parts import GatedRMSNorm, initial_step_bias, last_tokens, silu_slope, windows_of
from implicit.cells.plain import is_plain, like, project
from implicit.ops.backends import AUTO
from implicit.ops.gated_norm import gated_norm
from implicit.ops.linear import linear
from implicit.ops.mamba2_mixer import mamba2_mixer
from implicit.ops.short_convolution import short_convolution
from implicit.ops.ssd import ssd, ssd_states, ssd_step
from theory.transition import State


class Mamba2Sizes(CellSizes):
    """Sizes of a Mamba-2 cell."""

    expand: PositiveInt = Field(default=2, description="inner width as a multiple of d_model")
    d_state: PositiveInt = Field(default=16, description="SSM state size per channel")
    head_size: PositiveInt = Field(default=16, description="channels per head; divides expand * d_model")
    d_conv: PositiveInt = Field(default=4, description="width of the short convolution; 1 for none")
    groups: PositiveInt = Field(default=1, description="groups of heads that share B and C")


class Mamba2Cell(Cell):
    """in_proj (+ injection) → short causal convolution → SSD scan with Δ, A, D → gated RMSNorm → out_proj.

    `Mamba2Sizes` has the arguments beside ``d_model``, the features of input and output. The backend is that
    of the SSD scan; ``"auto"`` leaves all between the projections to `mamba2_mixer`. InputError for sizes
    below 1 or that do not divide.

    Example:
        >>> cell = Mamba2Cell(d_model=8, head_size=4, d_state=2)
        >>> inputs = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
        >>> outputs, _ = cell(inputs, cell.init_state(1))
        >>> state, steps = cell.init_state(1), []
        >>> for t in range(5):
        ...     output, state = cell.step(inputs[:, t], state)
        ...     steps.append(output)
        >>> torch.allclose(outputs, torch.stack(steps, 1), atol=1e-6)
        True
    """

    sizes_class: ClassVar[type[CellSizes]] = Mamba2Sizes
    recurrent_parts: ClassVar[tuple[str, ...]] = ("ssm",)
    linear_in_state: ClassVar[bool] = True

    @by_known_names
    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        head_size: int = 16,
        groups: int = 1,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.d_inner = expand * d_model
        sizes = {"d_model": d_model, "d_state": d_state, "d_conv": d_conv, "expand": expand}
        check_at_least_one(**sizes, head_size=head_size, groups=groups)
        if self.d_inner % head_size:
            raise InputError(f"head_size is {head_size}; it must divide expand * d_model = {self.d_inner}")
        self.heads = self.d_inner // head_size
        if self.heads % groups:
            raise InputError(f"groups is {groups}; it must divide the number of heads, {self.heads}")
        self.d_state, self.d_conv, self.head_size, self.groups = d_state, d_conv, head_size, groups
        self.backend = backend
        self.conv_channels = self.d_inner + 2 * groups * d_state
        self.d_in_proj = self.injection_size = self.d_inner + self.conv_channels + self.heads

        self.in_proj = nn.Linear(d_model, self.d_in_proj, bias=False)
        self.conv1d = nn.Conv1d(self.conv_channels, self.conv_channels, d_conv, groups=self.conv_channels)
        self.dt_bias = nn.Parameter(initial_step_bias(self.heads))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.heads).uniform_(1, 16)))
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = GatedRMSNorm(self.d_inner, groups=groups)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return the zero state for a batch; the SSM state is kept in float32 or wider."""
        weight = like(self.in_proj, self)
        wide = torch.promote_types(weight.dtype, torch.float32)
        return {
            "conv": weight.new_zeros(batch_size, self.conv_channels, self.d_conv - 1),
            "ssm": weight.new_zeros(batch_size, self.heads, self.head_size, self.d_state, dtype=wide),
        }

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        if self.backend != AUTO or not is_plain(self.conv1d, self.norm):
            return self._one_by_one(inputs, state, injection, mask)
        projected = project(self.in_proj, inputs, injection)
        normalised, ssm = mamba2_mixer(
            projected,
            state["conv"],
            self.conv1d.weight[:, 0],
            self.conv_bias,
            self.dt_bias,
            -torch.exp(self.A_log),
            self.D,
            self.norm.weight,
            state["ssm"],
            mask,
            norm_groups=self.norm.groups,
            epsilon=self.norm.epsilon,
        )
        channels = projected[..., self.d_inner : self.d_inner + self.conv_channels]
        outputs = project(self.out_proj, normalised)
        return outputs, {"conv": self._last_window(state["conv"], channels, mask), "ssm": ssm}

    def _one_by_one(
        self, inputs: Tensor, state: State, injection: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, State]:
        """`forward` with a backend of the scan that was asked for, or with modules that have to be called."""
        gate, padded, x, B, C, dt = self._prepare(inputs, state, injection, mask)
        y, ssm = ssd(x, dt, -torch.exp(self.A_log), B, C, state["ssm"], backend=self.backend)
        if is_plain(self.norm):
            norm = self.norm
            normalised = gated_norm(y, x, self.D, gate, norm.weight, norm.groups, norm.epsilon)
        else:
            normalised = self.norm((y + self.D[:, None] * x).flatten(-2), gate)
        window = self._last_window(padded[:, : self.d_conv - 1].mT, padded[:, self.d_conv - 1 :], mask)
        return project(self.out_proj, normalised), {"conv": window, "ssm": ssm}

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last, without outputs; see `Cell.states`."""
        _, padded, x, B, _, dt = self._prepare(inputs, state, injection, mask)
        windows = windows_of(padded, self.d_conv - 1, mask)  # behind the last real token, the window stays
        return {"conv": windows, "ssm": ssd_states(x, dt, -torch.exp(self.A_log), B, state["ssm"])}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        gate, channels, dt = self.project(inputs, injection)
        window = torch.cat([state["conv"], channels[..., None]], dim=-1)  # [batch, conv_channels, d_conv]
        if is_plain(self.conv1d):
            convolved = functional.silu((window * self.conv1d.weight[:, 0]).sum(-1) + self.conv_bias)
        else:
            convolved = self.convolve(window.mT)[:, 0]
        x, B, C = self.split(convolved)
        if self.groups > 1:  # else the one row of each is broadcast to all heads
            B, C = (part.repeat_interleave(self.heads // self.groups, dim=-2) for part in (B, C))
        ssm = ssd_step(x, dt, -torch.exp(self.A_log), B, state["ssm"])
        y = (ssm * C[..., None, :]).sum(-1).to(x.dtype) + self.D[:, None] * x
        output = project(self.out_proj, self.norm(y.flatten(-2), gate))
        return output, {"conv": window[..., 1:], "ssm": ssm}

    def output_with_derivative(
        self, inputs: Tensor, state: State, injection: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output of `step` and its derivative in the inputs; the state is held fixed."""
        # Automatic differentiation would push d tangents through the step and its state; here the state is
        # touched twice. With u the input, p = W u + injection, h₀ the state before the token, a = exp(Δ A),
        #
        #     x, B, C = silu(w p + window)      Δ = softplus(p + bias)      y = a h₀ C + Δ x BᵀC + D x
        #     ∂y = a h₀ ∂C + Δ x ∂(BᵀC) + (A a h₀ C + x BᵀC) ∂Δ + (Δ BᵀC + D) ∂x
        #     n = q r weight,  q = y silu(gate),  r = (mean q² + ε)^(−1/2)
        #     ∂n = (r ∂q − q r² mean(q r ∂q)) weight          ∂output = W_out ∂n
        #
        # Every term of r ∂q but the first two is a matrix of weights with its rows scaled.
        heads, head_size, groups, d_state = self.heads, self.head_size, self.groups, self.d_state
        parts = [self.d_inner, groups * d_state, groups * d_state]
        W_gate, W_x, W_B, W_C, W_dt = self.in_proj.weight.split([self.d_inner, *parts, heads])
        projected = linear(inputs, self.in_proj.weight)
        projected = projected if injection is None else projected + injection
        gate, channels, dt = projected.split([self.d_inner, self.conv_channels, heads], dim=-1)

        taps = self.conv1d.weight[:, 0]
        convolved = (state["conv"] * taps[:, :-1]).sum(-1) + channels * taps[:, -1] + self.conv1d.bias
        x, B, C = functional.silu(convolved).split(parts, dim=-1)
        x_slope, B_slope, C_slope = (silu_slope(convolved) * taps[:, -1]).split(parts, dim=-1)
        dt = dt + self.dt_bias
        dt, dt_slope = functional.softplus(dt), torch.sigmoid(dt)

        # Per head: [tokens, heads] and [tokens, heads, head_size]. Per group: [tokens, groups, d_state].
        A = -torch.exp(self.A_log)
        decay = torch.exp(dt * A)[..., None]
        x, driven = x.unflatten(-1, (heads, head_size)), (dt.repeat_interleave(head_size, dim=-1) * x)
        B, C = (part.unflatten(-1, (groups, d_state)) for part in (B, C))
        CB = (C * B).sum(-1).repeat_interleave(heads // groups, dim=-1)[..., None]
        # [tokens, groups, rows, d_state]
        by_group = state["ssm"].to(x.dtype).unflatten(1, (groups, -1)).flatten(2, 3)
        carried = decay * (by_group @ C[..., None]).flatten(1).unflatten(-1, (heads, head_size))  # a h₀ C
        dt_factor = ((A[:, None] * carried + x * CB) * dt_slope[..., None]).flatten(-2)
        x_factor = ((dt[..., None] * CB + self.D[:, None]).expand_as(x)).flatten(-2) * x_slope
        y = (carried + self.D[:, None] * x).flatten(-2) + driven * CB.expand_as(x).flatten(-2)

        q = (y * functional.silu(gate)).unflatten(-1, (self.norm.groups, -1))
        r = torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + self.norm.epsilon)
        scale = (functional.silu(gate).unflatten(-1, (self.norm.groups, -1)) * r).flatten(-2)

        # r ∂q transposed: inputs first, [tokens, d_model, d_inner], so that W_out is one large product.
        C_along = (W_C.T * C_slope[:, None]).unflatten(-1, (groups, d_state)).transpose(1, 2)
        B_along = (W_B.T * B_slope[:, None]).unflatten(-1, (groups, d_state)).transpose(1, 2)
        CB_along = C_along @ B[..., None] + B_along @ C[..., None]  # ∂(BᵀC), [tokens, groups, d_model, 1]
        rows = (decay.expand_as(x).flatten(1) * scale).unflatten(-1, (groups, -1))[..., None] * by_group
        rows = torch.cat([rows, (driven * scale).unflatten(-1, (groups, -1))[..., None]], dim=-1)
        along = torch.cat([C_along, CB_along], dim=-1) @ rows.mT  # [tokens, groups, d_model, rows of a group]
        along = along.transpose(1, 2).flatten(-2)
        along = torch.addcmul(along, W_x.T, (x_factor * scale)[:, None])
        along = along.addcmul_(W_dt.repeat_interleave(head_size, dim=0).T, (dt_factor * scale)[:, None])
        gate_factor = ((y * silu_slope(gate)).unflatten(-1, (self.norm.groups, -1)) * r).flatten(-2)
        along = along.addcmul_(W_gate.T, gate_factor[:, None])

        # The part of the mean has one column for each group of the norm.
        weight = self.out_proj.weight * self.norm.weight
        means = (along.unflatten(-1, (self.norm.groups, -1)).transpose(1, 2) @ q[..., None])[
            ..., 0
        ] / q.shape[-1]
        outputs = torch.einsum("tgi,jgi->tgj", q * r, weight.unflatten(-1, (self.norm.groups, -1)))
        derivative = linear(along, weight) - means.mT @ (outputs * r)
        return outputs.sum(1), derivative.mT

    def _prepare(
        self, inputs: Tensor, state: State, injection: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gate, the convolution's input with the window before it, x, B, C and Δ; Δ is 0 at padding.

        With Δ = 0 the decay is exactly 1 and nothing is written: the SSM state stays as it is.
        """
        gate, channels, dt = self.project(inputs, injection)
        padded = torch.cat([state["conv"].mT, channels], dim=1)  # [batch, d_conv - 1 + length, channels]
        x, B, C = self.split(self.convolve(padded))
        if mask is not None:
            dt = dt.masked_fill(~mask[..., None], 0)
        return gate, padded, x, B, C, dt

    def _last_window(self, window: Tensor, channels: Tensor, mask: Tensor | None) -> Tensor:
        """The window after the last real token, ``[batch, channels, d_conv − 1]``."""
        before = self.d_conv - 1
        if mask is None:
            last = channels[:, max(0, channels.shape[1] - before) :].mT
            return torch.cat([window[..., last.shape[-1] :], last], dim=-1)
        return last_tokens(torch.cat([window.mT, channels], dim=1), before, mask)

    @property
    def conv_bias(self) -> Tensor:
        """The bias of the short convolution, ``[channels]``."""
        assert self.conv1d.bias is not None  # optional only in the type that torch gives it
        return self.conv1d.bias

    def convolve(self, padded: Tensor) -> Tensor:
        """Return the short convolution with its activation, of channels that the window is prepended to."""
        if not is_plain(self.conv1d):
            return functional.silu(self.conv1d(padded.mT).mT)
        return short_convolution(padded, self.conv1d.weight[:, 0], self.conv_bias)

    def project(self, inputs: Tensor, injection: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return gate, convolution channels and Δ, from the input projection plus the injection."""
        projected = project(self.in_proj, inputs, injection)
        gate, channels, dt = projected.split([self.d_inner, self.conv_channels, self.heads], dim=-1)
        return gate, channels, functional.softplus(dt + self.dt_bias)

    def split(self, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return x, B and C from the convolved channels."""
        shared = self.groups * self.d_state
        x, B, C = channels.split([self.d_inner, shared, shared], dim=-1)
        return (
            x.unflatten(-1, (self.heads, self.head_size)),
            B.unflatten(-1, (self.groups, self.d_state)),
            C.unflatten(-1, (self.groups, self.d_state)),
        )
