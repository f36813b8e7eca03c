"""A cell of one's own, the explicit model of it, and its implicit twin."""

import torch
from pydantic import Field
from torch import Tensor, nn

from implicit.cells import Cell, CellSizes, keep_where
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model
from theory import State


class LeakySizes(CellSizes):
    """The sizes: keyword arguments of the cell, and flags of its models."""

    d_inner: int = Field(16, ge=1, description="entries of the state")


class LeakyCell(Cell):
    """h_t = λ_t ⊙ h_{t-1} + (1 − λ_t) ⊙ v_t; λ_t and v_t are projections of the input."""

    sizes_class = LeakySizes
    recurrent_parts = ("h",)
    linear_in_state = True  # at fixed inputs the step is h ← A h + b

    def __init__(self, d_model: int, d_inner: int = 16) -> None:
        super().__init__()
        self.injection_size = 2 * d_inner
        self.in_proj = nn.Linear(d_model, self.injection_size)
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return zeros."""
        return {"h": self.in_proj.weight.new_zeros(batch_size, self.injection_size // 2)}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token."""
        projected = self.in_proj(inputs)
        if injection is not None:
            projected = projected + injection
        values, gates = projected.chunk(2, dim=-1)
        keep = torch.sigmoid(gates)
        after = keep * state["h"] + (1 - keep) * torch.tanh(values)
        return self.out_proj(after), {"h": after}

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences: here token by token; a scan would be faster."""
        outputs = []
        for t in range(inputs.shape[1]):
            output, after = self.step(inputs[:, t], state, None if injection is None else injection[:, t])
            state = after if mask is None else keep_where(mask[:, t], after, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state


Leaky = explicit_model("leaky", LeakyCell, "a leaky average per channel")
ImplicitLeaky = implicit_model("implicit-leaky", LeakyCell, "leaky averages iterated to a fixed point")
