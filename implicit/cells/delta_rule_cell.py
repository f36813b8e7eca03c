"""What DeltaNet, gated DeltaNet and gated DeltaProduct have in common.

    in_proj (+ injection) → short convolution, silu → unit norm of q, k → gated delta rule → RMS norm per head
    (times silu of the gate) → out_proj

| code              | paper       | meaning                                                                  |
|-------------------|-------------|--------------------------------------------------------------------------|
| ``inputs``        | x           | ``[batch, length, d_model]``                                             |
| ``injection``     |             | ``[batch, length, injection_size]``, added to the input projection       |
| ``q``             | q           | ``[batch, length, heads, key_size]``                                     |
| ``k``, ``v``      | k, v        | ``[batch, householder_steps · length, heads, key_size or value_size]``   |
| ``beta``          | β           | ``[batch, householder_steps · length, heads]``                           |
| ``log_decay``     | log α       | likewise; zero but in the first step of a token; None without a gate     |
| ``state["conv"]`` |             | last inputs of the convolution, ``[batch, channels, d_conv − 1]``        |
| ``state["memory"]`` | Sᵀ        | ``[batch, heads, key_size, value_size]``                                 |

The rows of in_proj, and so the injection: gate, q, k of all steps, v of all steps, β of all steps, decay; of
gate and decay nothing in a cell without them. The papers read the memory with q / sqrt(key_size); here that
factor is in the ε of the norm that follows, which undoes all of it but that.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from implicit.cells.decay import Decay
from implicit.cells.interface import Cell
from implicit.cells.norm import RMSNorm
from implicit.cells.sizes import check_at_least_one
from implicit.cells.unit_norm import unit_norm
from implicit.cells.window import WindowConvolution
from implicit.ops.delta_rule import delta_rule, delta_rule_states, delta_rule_step
from implicit.ops.linear import linear
from theory.transition import State


class _Parts(NamedTuple):
    """The input projection, cut."""

    gate: Tensor | None
    channels: Tensor
    beta: Tensor  # [..., householder_steps * heads]
    log_decay: Tensor | None  # [..., heads]


class DeltaRuleCell(Cell):
    """A cell around the gated delta rule; its subclasses say which.

    Class attributes:
        gated: whether the memory decays and the output has a gate.

    Args:
        d_model: features of the input and the output.
        heads: memories side by side.
        key_size: features of a query and a key.
        value_size: features of a value.
        d_conv: width of the short convolution; 1 for none.
        negative_eigenvalues: β in (0, 2) instead of (0, 1), so that I − β k kᵀ has an eigenvalue in (−1, 1)
            instead of (0, 1).
        householder_steps: writes to the memory per token.
        backend: form of the delta rule, ``"chunked"`` or ``"reference"``.

    Attributes:
        projection_sizes: rows of in_proj for gate, channels of the convolution, β and decay.

    Raises:
        InputError: for sizes below 1.

    Example:
        >>> from implicit.cells import DeltaNetCell
        >>> issubclass(DeltaNetCell, DeltaRuleCell), DeltaNetCell.gated
        (True, False)
    """

    recurrent_parts = ("memory",)
    linear_in_state = True
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
        check_at_least_one(
            d_model=d_model,
            heads=heads,
            key_size=key_size,
            value_size=value_size,
            d_conv=d_conv,
            householder_steps=householder_steps,
        )
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        self.householder_steps = householder_steps
        self.largest_beta = 2.0 if negative_eigenvalues else 1.0
        self.backend = backend
        keys, values = heads * key_size, heads * value_size
        self._of_channels = [keys * (1 + householder_steps), values * householder_steps]
        self.projection_sizes = [
            values if self.gated else 0,
            sum(self._of_channels),
            heads * householder_steps,
            heads if self.gated else 0,
        ]
        self.injection_size = sum(self.projection_sizes)

        self.in_proj = nn.Linear(d_model, self.injection_size, bias=False)
        self.convolution = WindowConvolution(sum(self._of_channels), d_conv)
        self.decay = Decay(heads) if self.gated else None
        self.norm = RMSNorm(value_size, epsilon=1e-5 * key_size)
        self.out_proj = nn.Linear(values, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return the zero state; the memory is kept in float32 or wider."""
        weight = self.in_proj.weight
        memory = weight.new_zeros(
            batch_size,
            self.heads,
            self.key_size,
            self.value_size,
            dtype=torch.promote_types(weight.dtype, torch.float32),
        )
        return {"conv": self.convolution.init_window(batch_size), "memory": memory}

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        parts = self._project(inputs, injection)
        channels, window = self.convolution(parts.channels, state["conv"], mask)
        q, k, v = self._queries_keys_values(channels)
        beta, log_decay = self._strengths(parts, mask)
        y, memory = delta_rule(q, k, v, beta, log_decay, state["memory"], self.backend)
        return self._output(y, parts.gate), {"conv": window, "memory": memory}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        parts = self._project(inputs, injection)
        channels, window = self.convolution.step(parts.channels, state["conv"])
        q, k, v = self._queries_keys_values(channels[:, None])
        beta, _ = self._strengths(parts._replace(beta=parts.beta[:, None], log_decay=None), None)
        memory = state["memory"]
        for i in range(self.householder_steps):
            log_decay = parts.log_decay if i == 0 else None
            memory = delta_rule_step(k[:, i], v[:, i], beta[:, i], memory, log_decay)
        y = (memory * q[:, 0, :, :, None]).sum(-2).to(v.dtype)
        return self._output(y, parts.gate), {"conv": window, "memory": memory}

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last; see `Cell.states`."""
        parts = self._project(inputs, injection)
        channels, _ = self.convolution(parts.channels, state["conv"])
        _, k, v = self._queries_keys_values(channels)
        beta, log_decay = self._strengths(parts, mask)
        memories = delta_rule_states(k, v, beta, state["memory"], log_decay, self.householder_steps)
        windows = self.convolution.windows(parts.channels, state["conv"], mask)
        return {"conv": windows, "memory": memories}

    def _project(self, inputs: Tensor, injection: Tensor | None) -> _Parts:
        projected = linear(inputs, self.in_proj.weight)
        if injection is not None:
            projected = projected + injection
        gate, channels, beta, decay = projected.split(self.projection_sizes, dim=-1)
        if self.decay is None:
            return _Parts(None, channels, beta, None)
        return _Parts(gate, channels, beta, self.decay(decay))

    def _queries_keys_values(self, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the tokens, keys and values of all steps, from channels ``[batch, length, …]``."""
        batch = len(channels)
        qk, v = channels.split(self._of_channels, dim=-1)
        qk = unit_norm(qk.unflatten(-1, (1 + self.householder_steps, self.heads, self.key_size)))
        q, k = qk.split([1, self.householder_steps], dim=2)
        k, v = k.flatten(1, 2), v.reshape(batch, -1, self.heads, self.value_size)
        return q[:, :, 0], k, v

    def _strengths(self, parts: _Parts, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """β and log α of every step; 0 in padding, where nothing is to change."""
        beta, log_decay = torch.sigmoid(parts.beta), parts.log_decay
        if self.largest_beta != 1:
            beta = beta * self.largest_beta
        if mask is not None:
            padding = ~mask[..., None]
            beta = beta.masked_fill(padding, 0.0)
            log_decay = None if log_decay is None else log_decay.masked_fill(padding, 0.0)
        beta = beta.reshape(len(beta), -1, self.heads)
        if log_decay is not None and self.householder_steps > 1:
            others = (0, 0, 0, self.householder_steps - 1)
            log_decay = functional.pad(log_decay[:, :, None], others).flatten(1, 2)
        return beta, log_decay

    def _output(self, y: Tensor, gate: Tensor | None) -> Tensor:
        normalised = self.norm(y).flatten(-2)
        if gate is not None:
            normalised = normalised * functional.silu(gate)
        return linear(normalised, self.out_proj.weight)
