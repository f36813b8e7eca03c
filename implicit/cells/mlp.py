"""The SwiGLU MLP of a Llama block."""

from torch import Tensor, nn
from torch.nn import functional

from implicit.ops.linear import linear


class SwiGLU(nn.Module):
    """W_down (silu(W_gate x) ⊙ W_up x).

    Args:
        d_model: features of input and output.
        hidden: features in between.

    Source:
        Shazeer 2020, "GLU Variants Improve Transformer", arXiv 2002.05202; the names are those of Llama.

    Example:
        >>> import torch
        >>> SwiGLU(8, 16)(torch.zeros(2, 8)).shape
        torch.Size([2, 8])
    """

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d_model, hidden, bias=False)
        self.up_proj = nn.Linear(d_model, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[..., d_model]`` to the same shape."""
        hidden = functional.silu(linear(x, self.gate_proj.weight)) * linear(x, self.up_proj.weight)
        return linear(hidden, self.down_proj.weight)
