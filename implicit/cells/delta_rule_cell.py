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

import torch
from torch import Tensor
from torch.nn import functional

from implicit.cells.delta_rule_derivative import output_with_derivative
from implicit.cells.delta_rule_parameters import DeltaRuleParameters
from implicit.cells.plain import like, project
from implicit.ops.delta_rule import delta_rule, delta_rule_states, delta_rule_step
from theory.transition import State


class DeltaRuleCell(DeltaRuleParameters):
    """A cell around the gated delta rule; its subclasses say which.

    `DeltaNetSizes` says what the arguments are beside ``d_model``, the features of input and output, and
    ``householder_steps``, the writes to the memory per token; ``backend`` is the form of the delta rule. With
    negative eigenvalues β lies in (0, 2) instead of (0, 1), and that of I − β k kᵀ in (−1, 1).

    Attributes:
        projection_sizes: rows of in_proj for gate, channels of the convolution, β and decay.
    """

    recurrent_parts = ("memory",)
    linear_in_state = True

    def init_state(self, batch_size: int) -> State:
        """Return the zero state; the memory is kept in float32 or wider."""
        weight = like(self.in_proj, self)
        wide = torch.promote_types(weight.dtype, torch.float32)
        memory = weight.new_zeros(batch_size, self.heads, self.key_size, self.value_size, dtype=wide)
        return {"conv": self.convolution.init_window(batch_size), "memory": memory}

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        parts = self.project(inputs, injection)
        channels, window = self.convolution(parts.channels, state["conv"], mask)
        q, k, v = self.queries_keys_values(channels)
        beta, log_decay = self.strengths(parts, mask)
        y, memory = delta_rule(q, k, v, beta, log_decay, state["memory"], self.backend)
        return self._output(y, parts.gate), {"conv": window, "memory": memory}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        parts = self.project(inputs, injection)
        channels, window = self.convolution.step(parts.channels, state["conv"])
        q, k, v = self.queries_keys_values(channels[:, None])
        beta, log_decay = self.beta(parts), self.log_decay(parts)
        memory = state["memory"]
        for i in range(self.householder_steps):
            memory = delta_rule_step(k[:, i], v[:, i], beta[:, i], memory, log_decay if i == 0 else None)
        y = (memory * q[:, 0, :, :, None]).sum(-2).to(v.dtype)
        return self._output(y, parts.gate), {"conv": window, "memory": memory}

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last; see `Cell.states`."""
        parts = self.project(inputs, injection)
        channels, _ = self.convolution(parts.channels, state["conv"])
        _, k, v = self.queries_keys_values(channels)
        beta, log_decay = self.strengths(parts, mask)
        memories = delta_rule_states(k, v, beta, state["memory"], log_decay, self.householder_steps)
        windows = self.convolution.windows(parts.channels, state["conv"], mask)
        return {"conv": windows, "memory": memories}

    def output_with_derivative(
        self, inputs: Tensor, state: State, injection: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output of `step` and its derivative in the inputs (`delta_rule_derivative`)."""
        return output_with_derivative(self, inputs, state, injection)

    def _output(self, y: Tensor, gate: Tensor | None) -> Tensor:
        normalised = self.norm(y).flatten(-2)
        if gate is not None:
            normalised = normalised * functional.silu(gate)
        return project(self.out_proj, normalised)
