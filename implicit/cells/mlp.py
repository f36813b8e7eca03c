"""The feed-forward layer of a Llama block."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.cells.interface import check_at_least_one
from implicit.cells.plain import project
from implicit.ops.linear import linear


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


def silu_slope(x: Tensor) -> Tensor:
    """Return the derivative of silu."""
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))
