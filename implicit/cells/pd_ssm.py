"""A cell whose transition moves and multiplies the entries of its state: P D, a single 1 in each column of P.

| code              | paper | meaning                                                                    |
|-------------------|-------|----------------------------------------------------------------------------|
| ``dictionary``    | M_k   | matrices, ``[heads, dictionary_size, d_state, d_state]``                   |
| ``scores``        | M(x)  | their weighted mean, ``[…, heads, d_state, d_state]``                      |
| ``target``        | P(x)  | row of the largest score in every column, ``[…, heads, d_state]``          |
| ``factor``        | D(x)  | complex, of absolute value below 1, ``[…, heads, d_state]``                |
| ``written``       | B x   | complex, ``[…, heads, d_state]``                                           |
| ``state["ssm"]``  | h     | ``[batch, heads, d_state, 2]``, the last axis for real and imaginary part  |

A step is h ← P D h + b, and the output is linear in h. With |D| = 1 a permutation P has its eigenvalues on
the unit circle; one head can follow any automaton with at most d_state states.

The choice of P has the derivative zero in what the cell *reads* (inputs, injection, state), as fixed points
and Theorem 1 ask. The *parameters* of the choice, dictionary and selector, learn by the straight-through
estimator. So, unlike in the paper, nothing before the cell learns through the choice.
"""

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from automata.checks import by_known_names
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.plain import is_plain, like, project
from implicit.ops.linear import linear
from implicit.ops.one_hot_scan import one_hot_scan, one_hot_step
from theory.transition import State

INITIAL_MAGNITUDE = 0.98
"""Modulus of the entries of D: a new cell forgets within tens of tokens, not at once."""


class PDSSMSizes(CellSizes):
    """The sizes of a PD-SSM-like cell."""

    heads: int = Field(2, ge=1, description="states side by side, each with a dictionary")
    d_state: int = Field(16, ge=1, description="complex entries of the state of a head")
    dictionary_size: int = Field(8, ge=1, description="matrices that a head's permutation is mixed from")
    temperature: float = Field(1.0, gt=0, description="of the softmax by which the choice learns")


class PDSSMCell(Cell):
    """h_t = P(x_t) D(x_t) h_{t-1} + B x_t, read by a linear map; P is chosen by the input, column by column.

    Unlike in the paper, D comes from a linear map, not an MLP, and there may be several heads. `PDSSMSizes`
    has the arguments beside ``d_model``, the features of input and output. InputError for sizes below 1.

    Source: Terzić et al. 2025, "Structured Sparse Transition Matrices", arXiv 2509.22284.

    Example:
        >>> cell = PDSSMCell(8, heads=2, d_state=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["ssm"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 2]))
    """

    sizes_class = PDSSMSizes
    recurrent_parts = ("ssm",)
    linear_in_state = True

    @by_known_names
    def __init__(
        self,
        d_model: int,
        heads: int = 2,
        d_state: int = 16,
        dictionary_size: int = 8,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, heads=heads, d_state=d_state, dictionary_size=dictionary_size)
        self.heads, self.d_state, self.temperature = heads, d_state, temperature
        entries = heads * d_state
        self.projection_sizes = [entries, entries, 2 * entries]
        self.injection_size = sum(self.projection_sizes)
        self.in_proj = nn.Linear(d_model, self.injection_size, bias=False)
        self.magnitude_bias = nn.Parameter(torch.full((entries,), INITIAL_MAGNITUDE).logit())
        self.selector = nn.Linear(d_model, heads * dictionary_size, bias=False)
        self.dictionary = nn.Parameter(torch.randn(heads, dictionary_size, d_state, d_state))
        self.out_proj = nn.Linear(2 * entries, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return the zero state, in float32 or wider."""
        shape = (batch_size, self.heads, self.d_state, 2)
        return {"ssm": like(self.in_proj, self).new_zeros(shape, dtype=self._wide)}

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        visited = self.states(inputs, state, injection, mask)["ssm"]
        return self._output(visited[:, 1:], inputs.dtype), {"ssm": visited[:, -1]}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        factor, written = self._project(inputs, injection)
        scores = self._scores(inputs)
        before = torch.view_as_complex(state["ssm"].clone(memory_format=torch.contiguous_format))
        if torch.is_grad_enabled():
            written = written + straight_through(scores / self.temperature, factor * before)
        ssm = torch.view_as_real(one_hot_step(scores.argmax(-2), factor, written, before))
        return self._output(ssm, inputs.dtype), {"ssm": ssm}

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last; see `Cell.states`."""
        factor, written = self._project(inputs, injection)
        scores = self._scores(inputs)
        target = scores.argmax(-2)
        initial = torch.view_as_complex(state["ssm"].clone(memory_format=torch.contiguous_format))
        if mask is not None:  # in padding the identity
            padding = ~mask[..., None, None]
            target = torch.where(padding, torch.arange(self.d_state, device=target.device), target)
            factor, written = factor.masked_fill(padding, 1), written.masked_fill(padding, 0)
        if torch.is_grad_enabled():
            with torch.no_grad():
                before = one_hot_scan(target, factor, written, initial)[:, :-1]
            learning = straight_through(scores / self.temperature, factor * before)
            written = written + (learning if mask is None else learning.masked_fill(padding, 0))
        return {"ssm": torch.view_as_real(one_hot_scan(target, factor, written, initial))}

    @property
    def _wide(self) -> torch.dtype:
        return torch.promote_types(like(self.in_proj, self).dtype, torch.float32)

    def _project(self, inputs: Tensor, injection: Tensor | None) -> tuple[Tensor, Tensor]:
        """D and B x, both complex ``[…, heads, d_state]``."""
        projected = project(self.in_proj, inputs, injection)
        magnitude, angle, written = projected.to(self._wide).split(self.projection_sizes, dim=-1)
        magnitude, angle = torch.sigmoid(magnitude + self.magnitude_bias), math.pi * torch.tanh(angle)
        factor = torch.complex(magnitude * angle.cos(), magnitude * angle.sin())
        shape = (self.heads, self.d_state)
        return factor.unflatten(-1, shape), torch.view_as_complex(written.unflatten(-1, (*shape, 2)))

    def _scores(self, inputs: Tensor) -> Tensor:
        """Scores of the rows in every column, ``[…, heads, d_state, d_state]``.

        In float32 or wider, where rounding seldom changes which is the largest.
        """
        inputs = inputs.detach()
        if is_plain(self.selector):
            chosen = linear(inputs.to(self._wide), self.selector.weight.to(self._wide))
        else:
            chosen = self.selector(inputs).to(self._wide)
        shares = chosen.unflatten(-1, (self.heads, -1)).softmax(-1)
        return torch.einsum("...hk,hkij->...hij", shares, self.dictionary.to(self._wide))

    def _output(self, ssm: Tensor, dtype: torch.dtype) -> Tensor:
        return project(self.out_proj, ssm.flatten(-3).to(dtype))


def straight_through(scores: Tensor, carried: Tensor) -> Tensor:
    """Return zeros that have, in the scores, the gradient of softmax(scores) times what is carried.

    Added to P D h it makes the scores learn as if P were the softmax of each of their columns. Scores are
    real, ``[…, size, size]``; what is carried is D h, complex, ``[…, size]``, held fixed.
    """
    soft = scores.softmax(-2)
    moved = (soft - soft.detach()) @ torch.view_as_real(carried.detach())
    return torch.view_as_complex(moved)
