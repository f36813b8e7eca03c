"""The parameters of DeltaNet's relatives, and what their forms share: projections, unit keys and strengths.

`implicit.cells.delta_rule_cell` has the table of names.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.cells.decay import Decay
from implicit.cells.interface import Cell, check_at_least_one
from implicit.cells.norm import RMSNorm, unit_norm
from implicit.cells.plain import project
from implicit.cells.window import WindowConvolution


class Projections(NamedTuple):
    """The input projection plus the injection, cut."""

    gate: Tensor | None
    channels: Tensor
    beta: Tensor  # [..., householder_steps * heads], before the sigmoid
    decay: Tensor | None  # [..., heads], before softplus


class DeltaRuleParameters(Cell):
    """The parameters of a cell around the delta rule; `implicit.cells.delta_rule_cell` has the arguments."""

    gated: ClassVar[bool] = False

    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_size: int = 16,
        value_size: int = 16,
        d_conv: int = 4,
        negative_eigenvalues: bool = False,
        householder_steps: int = 1,
        backend: str = "chunked",
    ) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, heads=heads, key_size=key_size, value_size=value_size)
        check_at_least_one(d_conv=d_conv, householder_steps=householder_steps)
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        self.householder_steps = householder_steps
        self.largest_beta = 2.0 if negative_eigenvalues else 1.0
        self.backend = backend
        keys, values = heads * key_size, heads * value_size
        self.channel_sizes = [keys * (1 + householder_steps), values * householder_steps]
        self.projection_sizes = [
            values if self.gated else 0,
            sum(self.channel_sizes),
            heads * householder_steps,
            heads if self.gated else 0,
        ]
        self.injection_size = sum(self.projection_sizes)

        self.in_proj = nn.Linear(d_model, self.injection_size, bias=False)
        self.convolution = WindowConvolution(sum(self.channel_sizes), d_conv)
        self.decay = Decay(heads) if self.gated else None
        self.norm = RMSNorm(value_size, epsilon=1e-5 * key_size)
        self.out_proj = nn.Linear(values, d_model, bias=False)

    def project(self, inputs: Tensor, injection: Tensor | None) -> Projections:
        """Return the input projection plus the injection, cut into what the forms read."""
        projected = project(self.in_proj, inputs)
        if injection is not None:
            projected = projected + injection
        gate, channels, beta, decay = projected.split(self.projection_sizes, dim=-1)
        return Projections(gate if self.gated else None, channels, beta, decay if self.gated else None)

    def queries_keys_values(self, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries of tokens, and keys and values of all steps, of ``[batch, length, …]``."""
        batch = len(channels)
        qk, v = channels.split(self.channel_sizes, dim=-1)
        qk = unit_norm(qk.unflatten(-1, (1 + self.householder_steps, self.heads, self.key_size)))
        q, k = qk.split([1, self.householder_steps], dim=2)
        k, v = k.flatten(1, 2), v.reshape(batch, -1, self.heads, self.value_size)
        return q[:, :, 0], k, v

    def strengths(self, projections: Projections, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return β and log α of every step of sequences; 0 in padding, where nothing is to change."""
        beta, log_decay = self.beta(projections), self.log_decay(projections)
        if mask is not None:
            beta = beta.masked_fill(~mask[..., None, None], 0.0)
            log_decay = None if log_decay is None else log_decay.masked_fill(~mask[..., None], 0.0)
        beta = beta.flatten(1, 2)
        if log_decay is not None and self.householder_steps > 1:
            others = (0, 0, 0, self.householder_steps - 1)
            log_decay = functional.pad(log_decay[:, :, None], others).flatten(1, 2)
        return beta, log_decay

    def beta(self, projections: Projections) -> Tensor:
        """Return β of every step, ``[..., householder_steps, heads]``."""
        beta = torch.sigmoid(projections.beta).unflatten(-1, (self.householder_steps, self.heads))
        return beta if self.largest_beta == 1 else beta * self.largest_beta

    def log_decay(self, projections: Projections) -> Tensor | None:
        """Return log α of every token, ``[..., heads]``; None in a cell without a gate."""
        return None if self.decay is None or projections.decay is None else self.decay(projections.decay)
