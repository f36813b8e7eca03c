"""The Mamba-3 cell: Mamba-2 with a rotation of the state and the trapezoidal rule.

| code              | paper | meaning                                                                        |
|-------------------|-------|--------------------------------------------------------------------------------|
| ``z`` (in_proj)   | Z     | gate, ``[…, d_inner]``                                                         |
| ``value``         | x     | ``[…, heads, head_size]``                                                      |
| ``key``, ``query`` | B, C | RMS-normalised, with a bias per head, ``[…, heads, d_state]``                  |
| ``dt``, ``log_decay`` | Δ, ΔA | per head; the decay too depends on the token                               |
| ``trapezoid``     | λ     | share of this token, not the one before, in what is written, per head          |
| ``angles``        | Δθ    | by which pairs of entries of the state are turned, ``[…, heads, pairs]``       |
| ``state["ssm"]``  | h     | ``[batch, heads, head_size, d_state]``, turned with the tokens                 |
| ``state["key"]``, ``state["value"]`` | | of the token before                                              |

With R the rotation of a token, a step is h ← α (h + (1 − λ) Δ v₋ k₋ᵀ) Rᵀ + λ Δ v kᵀ with v₋, k₋ of the token
before: eigenvalues α e^(±iΔθ). The published code carries R(sum of all angles) h and that sum instead, which
gives the same outputs; here the state is the one that the step is linear in, and no angle grows without end.
"""

import math
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from automata.checks import by_known_names
from automata.errors import InputError
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.parts import RMSNorm, initial_step_bias, last_tokens
from implicit.cells.plain import like, project
from implicit.ops.ssd import ssd
from theory.transition import State

SMALLEST_RATE = 1e-4
"""The smallest rate of decay, per unit of Δ, as in the published code."""


class Mamba3Sizes(CellSizes):
    """The sizes of a Mamba-3 cell."""

    d_state: int = Field(16, ge=4, description="state size per head and channel, a multiple of 4")
    expand: int = Field(2, ge=1, description="d_inner = expand * d_model")
    head_size: int = Field(16, ge=1, description="channels of a head; divides d_inner")


class _Parts(NamedTuple):
    """The input projection, cut and mapped to its ranges; every part ``[batch, length, …]``."""

    z: Tensor
    value: Tensor
    key: Tensor
    query: Tensor
    dt: Tensor
    log_decay: Tensor
    trapezoid: Tensor
    angles: Tensor


class Mamba3Cell(Cell):
    """Mamba-3 with one input and one output per head; half of the entries of the state are turned, in pairs.

    `Mamba3Sizes` has the arguments beside ``d_model``, the features of input and output. InputError for sizes
    below 1 or that do not divide. Source: Lahoti et al. 2026, "Mamba-3: Improved Sequence Modeling using
    State Space Principles"; ``mamba_ssm.modules.mamba3`` with a single input per head.

    Example:
        >>> cell = Mamba3Cell(8, d_state=4, head_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["ssm"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 4, 4, 4]))
    """

    sizes_class = Mamba3Sizes
    recurrent_parts = ("ssm",)
    linear_in_state = True

    @by_known_names
    def __init__(self, d_model: int, d_state: int = 16, expand: int = 2, head_size: int = 16) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, d_state=d_state, expand=expand, head_size=head_size)
        d_inner = expand * d_model
        if d_inner % head_size:
            raise InputError(f"head_size is {head_size}; it must divide expand * d_model = {d_inner}")
        if d_state % 4:
            raise InputError(f"d_state is {d_state}; give a multiple of 4, half of it is turned in pairs")
        self.heads, self.head_size, self.d_state = d_inner // head_size, head_size, d_state
        heads = self.heads
        self.projection_sizes = [d_inner, d_inner, d_state, d_state, heads, heads, heads, d_state // 4]
        self.injection_size = sum(self.projection_sizes)
        self.in_proj = nn.Linear(d_model, self.injection_size, bias=False)
        self.dt_bias = nn.Parameter(initial_step_bias(heads))
        self.B_bias = nn.Parameter(torch.ones(heads, d_state))
        self.C_bias = nn.Parameter(torch.ones(heads, d_state))
        self.B_norm, self.C_norm = RMSNorm(d_state), RMSNorm(d_state)
        self.D = nn.Parameter(torch.ones(heads))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return the zero state; h is kept in float32 or wider."""
        weight = like(self.in_proj, self)
        wide = torch.promote_types(weight.dtype, torch.float32)
        return {
            "ssm": weight.new_zeros(batch_size, self.heads, self.head_size, self.d_state, dtype=wide),
            "key": weight.new_zeros(batch_size, self.heads, self.d_state),
            "value": weight.new_zeros(batch_size, self.heads, self.head_size),
        }

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        parts = self._project(inputs, injection)
        if mask is not None:
            kept = mask[..., None].to(parts.dt.dtype)
            parts = parts._replace(
                dt=parts.dt * kept, log_decay=parts.log_decay * kept, angles=parts.angles * kept[..., None]
            )
        z, value, key, query, dt, log_decay, trapezoid, angles = parts
        total = angles.double().cumsum(1)
        # What a token's key is written with: its own share, and from the next token on that one's too.
        shared = (1 - trapezoid) * dt
        later = functional.pad(shared[:, 1:], (0, 0, 0, 1))
        written = trapezoid * dt + later
        before = state["value"][..., None] * state["key"][..., None, :]
        initial = state["ssm"] + shared[:, 0, :, None, None] * before
        # The scan multiplies its input by the step size, which here is the logarithm of the decay alone.
        steps = (-log_decay).clamp(min=smallest_step(dt.dtype))
        given, rates = value * (written / steps)[..., None], -torch.ones_like(self.D)
        y, ssm = ssd(given, steps, rates, turned(key, total), turned(query, total), initial)
        y = y - value * (later * (key * query).sum(-1))[..., None]  # the next token's share came too early
        after = {
            "ssm": turned(ssm, -total[:, -1, :, None]),
            "key": last_token(state["key"], key, mask),
            "value": last_token(state["value"], value, mask),
        }
        return self._output(y, value, z), after

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        z, value, key, query, dt, log_decay, trapezoid, angles = self._project(inputs, injection)
        before = state["value"][..., None] * state["key"][..., None, :]
        carried = state["ssm"] + ((1 - trapezoid) * dt)[..., None, None] * before
        carried = log_decay.exp()[..., None, None] * turned(carried, -angles[..., None, :])
        ssm = carried + (trapezoid * dt)[..., None, None] * value[..., None] * key[..., None, :]
        y = (ssm * query[..., None, :]).sum(-1).to(value.dtype)
        return self._output(y, value, z), {"ssm": ssm, "key": key, "value": value}

    def _project(self, inputs: Tensor, injection: Tensor | None) -> _Parts:
        projected = project(self.in_proj, inputs, injection)
        z, x, B, C, dt, rate, trapezoid, angles = projected.split(self.projection_sizes, dim=-1)
        dt = functional.softplus(dt + self.dt_bias)
        return _Parts(
            z,
            x.unflatten(-1, (self.heads, self.head_size)),
            self.B_norm(B)[..., None, :] + self.B_bias,
            self.C_norm(C)[..., None, :] + self.C_bias,
            dt,
            -functional.softplus(rate).clamp(min=SMALLEST_RATE) * dt,
            torch.sigmoid(trapezoid),
            math.pi * torch.tanh(angles)[..., None, :] * dt[..., None],
        )

    def _output(self, y: Tensor, value: Tensor, z: Tensor) -> Tensor:
        y = (y + self.D[:, None] * value).flatten(-2) * functional.silu(z)
        return project(self.out_proj, y)


def smallest_step(dtype: torch.dtype) -> float:
    """Return a log decay too small to be seen in a sum, by the square of which one can still divide."""
    wide = torch.promote_types(dtype, torch.float32)
    return max(torch.finfo(wide).eps ** 2, torch.finfo(dtype).tiny)


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the first pairs of neighbouring entries by the angles ``[..., pairs]``, and leave the others."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    moving, resting = x.split([2 * angles.shape[-1], x.shape[-1] - 2 * angles.shape[-1]], dim=-1)
    first, second = moving.unflatten(-1, (-1, 2)).unbind(-1)
    pairs = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return torch.cat([pairs.flatten(-2), resting], dim=-1)


def last_token(before: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the last real token of ``[batch, length, …]``, or the one before where there is none."""
    padded = torch.cat([before[:, None], x], dim=1).flatten(2)
    return last_tokens(padded, 1, mask)[..., 0].view_as(before)
