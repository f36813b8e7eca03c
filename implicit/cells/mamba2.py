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
from torch import Tensor
from torch.nn import functional

from implicit.cells.mamba2_derivative import output_with_derivative
from implicit.cells.mamba2_parameters import Mamba2Parameters
from implicit.cells.plain import is_plain, like, project
from implicit.ops.backends import AUTO
from implicit.ops.gated_norm import gated_norm
from implicit.ops.mamba2_mixer import mamba2_mixer
from implicit.ops.ssd import ssd, ssd_states, ssd_step
from theory.transition import State


class Mamba2Cell(Mamba2Parameters):
    """in_proj (+ injection) → short causal convolution → SSD scan with Δ, A, D → gated RMSNorm → out_proj.

    `Mamba2Sizes` says what the arguments are beside ``d_model``, the features of input and output. The
    backend is that of the SSD scan; ``"auto"`` leaves all between the projections to `mamba2_mixer`.

    Raises:
        InputError: for sizes below 1 or that do not divide.

    Example:
        Both forms give the same outputs.

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

    recurrent_parts: ClassVar[tuple[str, ...]] = ("ssm",)
    linear_in_state: ClassVar[bool] = True

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
        projected = self.project_inputs(inputs, injection)
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
        windows = padded.unfold(1, self.d_conv - 1, 1)
        if mask is not None:  # behind the last real token, the window stays
            last = mask.sum(dim=1, keepdim=True)
            place = torch.arange(windows.shape[1], device=mask.device).minimum(last)
            windows = windows.gather(1, place[..., None, None].expand_as(windows))
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
        """Return the output of `step` and its derivative in the inputs (`mamba2_derivative`)."""
        return output_with_derivative(self, inputs, state, injection)

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
        padded = torch.cat([window.mT, channels], dim=1)
        place = mask.sum(dim=1, keepdim=True) + torch.arange(before, device=mask.device)
        return padded.gather(1, place[..., None].expand(-1, -1, padded.shape[-1])).mT
