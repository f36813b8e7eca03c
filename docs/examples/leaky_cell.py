"""A cell of one's own, the explicit model of it, and its implicit twin."""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu

from implicit.cells import Cell, CellSizes
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model
from theory import State


class LeakySizes(CellSizes):
    """The sizes: keyword arguments of the cell, and flags of its models."""

    d_inner: int = Field(32, ge=1, description="entries of the state")


class LeakyCell(Cell):
    """h_t = λ_t ⊙ h_{t-1} + (1 − λ_t) ⊙ v_t, and y_t = W (g_t ⊙ (h_{t-1} + v_t)).

    The leak λ_t, the value v_t and the gate g_t are projections of the input.
    """

    sizes_class = LeakySizes
    recurrent_parts = ("h",)
    linear_in_state = True  # at fixed inputs the step is h ← A h + b

    def __init__(self, d_model: int, d_inner: int = 32) -> None:
        super().__init__()
        self.injection_size = 3 * d_inner
        self.in_proj = nn.Linear(d_model, self.injection_size)
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return zeros."""
        return {"h": self.in_proj.weight.new_zeros(batch_size, self.injection_size // 3)}

    def project(self, inputs: Tensor, injection: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, leaks and gates; of one token, or of whole sequences in one product."""
        projected = self.in_proj(inputs)
        if injection is not None:
            projected = projected + injection
        values, leaks, gates = projected.chunk(3, dim=-1)
        return torch.tanh(values), torch.sigmoid(leaks), silu(gates)

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token."""
        value, leak, gate = self.project(inputs, injection)
        before = state["h"]
        return self.out_proj(gate * (before + value)), {"h": leak * before + (1 - leak) * value}

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences: only the state goes from token to token."""
        values, leaks, gates = self.project(inputs, injection)
        if mask is not None:  # padding leaves the state as it is
            leaks = leaks.masked_fill(~mask[..., None], 1)
        before, h = [], state["h"]
        for value, leak in zip(values.unbind(1), leaks.unbind(1), strict=True):
            before.append(h)
            h = leak * h + (1 - leak) * value
        return self.out_proj(gates * (torch.stack(before, dim=1) + values)), {"h": h}


Leaky = explicit_model("leaky", LeakyCell, "a leaky average per channel")
ImplicitLeaky = implicit_model("implicit-leaky", LeakyCell, "leaky averages iterated to a fixed point")
