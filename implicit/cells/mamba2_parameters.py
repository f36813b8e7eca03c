"""The parameters of a Mamba-2 cell, and what its forms share: the projections and the short convolution.

Parameters have names and shapes of ``mamba_ssm.modules.mamba2.Mamba2``, so that state dicts map one to one
(Dao & Gu 2024, arXiv 2405.21060).
"""

from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from automata.errors import InputError
from implicit.cells.decay import initial_step_bias
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.norm import GatedRMSNorm
from implicit.cells.plain import is_plain, project
from implicit.ops.short_convolution import short_convolution


class Mamba2Sizes(CellSizes):
    """Sizes of a Mamba-2 cell."""

    expand: PositiveInt = Field(default=2, description="inner width as a multiple of d_model")
    d_state: PositiveInt = Field(default=16, description="SSM state size per channel")
    head_size: PositiveInt = Field(default=16, description="channels per head; divides expand * d_model")
    d_conv: PositiveInt = Field(default=4, description="width of the short convolution; 1 for none")
    groups: PositiveInt = Field(default=1, description="groups of heads that share B and C")


class Mamba2Parameters(Cell):
    """The parameters of a Mamba-2 cell; `implicit.cells.mamba2.Mamba2Cell` has the arguments."""

    sizes_class: ClassVar[type[CellSizes]] = Mamba2Sizes

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

    def project_inputs(self, inputs: Tensor, injection: Tensor | None) -> Tensor:
        """Return the input projection plus the injection, ``[…, d_in_proj]``."""
        projected = project(self.in_proj, inputs)
        return projected if injection is None else projected + injection

    def project(self, inputs: Tensor, injection: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return gate, convolution channels and Δ, from the input projection plus the injection."""
        projected = self.project_inputs(inputs, injection)
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
