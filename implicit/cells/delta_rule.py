"""DeltaNet, gated DeltaNet and gated DeltaProduct: a memory that replaces what it holds at a key.

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

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from automata.checks import by_known_names
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.parts import (
    Decay,
    RMSNorm,
    WindowConvolution,
    silu_slope,
    unit_norm,
    unit_norm_factor,
    windows_of,
)
from implicit.cells.plain import like, project
from implicit.ops.delta_rule import delta_rule, delta_rule_states, delta_rule_step
from implicit.ops.linear import linear
from theory.transition import State


class DeltaNetSizes(CellSizes):
    """The sizes of a DeltaNet cell."""

    heads: int = Field(4, ge=1, description="memories side by side")
    key_size: int = Field(16, ge=1, description="features of a query and a key")
    value_size: int = Field(16, ge=1, description="features of a value")
    d_conv: int = Field(4, ge=1, description="width of the short convolution; 1 for none")
    negative_eigenvalues: bool = Field(
        False, description="eigenvalues of a token's transition in [-1, 1] instead of [0, 1]"
    )


class GatedDeltaProductSizes(DeltaNetSizes):
    """The sizes of a gated DeltaProduct cell."""

    householder_steps: int = Field(2, ge=1, description="writes to the memory per token")


class Projections(NamedTuple):
    """The input projection plus the injection, cut."""

    gate: Tensor | None
    channels: Tensor
    beta: Tensor  # [..., householder_steps * heads], before the sigmoid
    decay: Tensor | None  # [..., heads], before softplus


class DeltaRuleCell(Cell):
    """A cell around the gated delta rule; its subclasses say which.

    `DeltaNetSizes` has the arguments beside ``d_model`` and ``householder_steps``, the writes per token. With
    negative eigenvalues β lies in (0, 2) instead of (0, 1), and that of I − β k kᵀ in (−1, 1).
    """

    recurrent_parts = ("memory",)
    linear_in_state = True
    gated: ClassVar[bool] = False

    @by_known_names
    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_size: int = 16,
        value_size: int = 16,
        d_conv: int = 4,
        negative_eigenvalues: bool = False,
        householder_steps: int = 1,
    ) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, heads=heads, key_size=key_size, value_size=value_size)
        check_at_least_one(d_conv=d_conv, householder_steps=householder_steps)
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        self.householder_steps = householder_steps
        self.scan: Callable[..., tuple[Tensor, Tensor]] = delta_rule
        self.largest_beta = 2.0 if negative_eigenvalues else 1.0
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
        y, memory = self.scan(q, k, v, beta, log_decay, state["memory"])
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
        padded = torch.cat([state["conv"].mT, parts.channels], dim=1)
        windows = windows_of(padded, self.convolution.width - 1, mask)
        return {"conv": windows, "memory": memories}

    def output_with_derivative(
        self, inputs: Tensor, state: State, injection: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output of `step` and its derivative in the inputs; the state is held fixed."""
        projections = self.project(inputs, injection)
        y, slope = _reading(self, projections, state)
        # The norm of a head, and on to the input: [tokens, d_model, heads · value_size]. Then the gate.
        slope = self.norm.push_forward(y, slope).transpose(0, 1)
        along = (slope.flatten(1, 2) @ _rows_by_head(self)).unflatten(1, slope.shape[1:3])
        along = along.permute(1, 3, 0, 2).flatten(2)
        output = self.norm(y).flatten(1)
        if projections.gate is not None:
            gate, rows = functional.silu(projections.gate), self.in_proj.weight[: self.projection_sizes[0]]
            along = along * gate[:, None] + (output * silu_slope(projections.gate))[:, None] * rows.T
            output = output * gate
        weight = self.out_proj.weight
        return linear(output, weight), linear(along, weight).mT

    def _output(self, y: Tensor, gate: Tensor | None) -> Tensor:
        normalised = self.norm(y).flatten(-2)
        if gate is not None:
            normalised = normalised * functional.silu(gate)
        return project(self.out_proj, normalised)

    def project(self, inputs: Tensor, injection: Tensor | None) -> Projections:
        """Return the input projection plus the injection, cut into what the forms read."""
        projected = project(self.in_proj, inputs, injection)
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


class DeltaNetCell(DeltaRuleCell):
    """S_t = (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read with q_t and normalised.

    Takes the arguments of `DeltaRuleCell`; with several householder_steps it is DeltaProduct without gates.
    Source: Yang et al. 2024, arXiv 2406.06484; negative eigenvalues, Grazzi et al. 2024, arXiv 2411.12537.

    Example:
        >>> import torch
        >>> cell = DeltaNetCell(8, heads=2, key_size=4, value_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = DeltaNetSizes


class GatedDeltaNetCell(DeltaRuleCell):
    """S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read with q_t, normalised and gated.

    Takes the arguments of `DeltaRuleCell`. Source: Yang et al. 2024, arXiv 2412.06464.

    Example:
        >>> import torch
        >>> cell = GatedDeltaNetCell(8, heads=2, key_size=4, value_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = DeltaNetSizes
    gated = True


class GatedDeltaProductCell(DeltaRuleCell):
    """For each token α, then n times S ← (I − β k kᵀ) S + β k vᵀ, then the reading with q.

    Takes the arguments of `DeltaRuleCell`; two steps by default. Source: Siems et al. 2025, arXiv 2502.10297.

    Example:
        >>> import torch
        >>> cell = GatedDeltaProductCell(8, heads=2, key_size=4, value_size=4, householder_steps=3)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = GatedDeltaProductSizes
    gated = True

    @by_known_names
    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_size: int = 16,
        value_size: int = 16,
        d_conv: int = 4,
        negative_eigenvalues: bool = False,
        householder_steps: int = 2,
    ) -> None:
        super().__init__(
            d_model, heads, key_size, value_size, d_conv, negative_eigenvalues, householder_steps
        )


# The derivative of the output in the input at single tokens, written out.
#
# Automatic differentiation would take one backward pass through the step for each feature of the output. Here
# the reading is traced back through the n writes of a token: with S the memory before it, kᵢ, vᵢ and βᵢ of
# write i, q the query, all keys and the query of unit length,
#
#     rₙ = q      cᵢ = βᵢ kᵢᵀrᵢ      rᵢ₋₁ = rᵢ − cᵢ kᵢ      y = α Sᵀr₀ + Σᵢ cᵢ vᵢ
#
#     ∂cᵢ = ∂βᵢ kᵢᵀrᵢ + βᵢ (rᵢᵀ∂kᵢ + kᵢᵀ∂q − Σⱼ﹥ᵢ (kᵢᵀkⱼ ∂cⱼ + cⱼ kᵢᵀ∂kⱼ))
#     ∂y  = α Sᵀ(∂q − Σᵢ cᵢ ∂kᵢ) + Σᵢ ((vᵢ − α Sᵀkᵢ) ∂cᵢ + cᵢ ∂vᵢ) + α Sᵀr₀ ∂log α
#
# so that the derivative of a head's y in the head's own projections, the columns of ``slope``, takes no
# derivative of the memory. The rows of in_proj then lead on to the input, and norm, gate and out_proj to the
# output. Unit keys (ε included) have ∂k = ρ (I − k kᵀ) ∂p, ρ the factor that p is multiplied by.
#
# ``slope`` is ``[tokens, heads, value_size, columns]``, columns for q, keys, values, β and decay of the
# head; ``c_slope``, ``[tokens, heads, columns]``, is ∂cᵢ in q, the keys and β of the head.


def _reading(cell: DeltaRuleCell, projections: Projections, state: State) -> tuple[Tensor, Tensor]:
    """y, ``[tokens, heads, value_size]``, and its ``slope``."""
    heads, steps, keys = cell.heads, cell.householder_steps, cell.key_size
    convolved, tap = cell.convolution.before_activation(projections.channels, state["conv"])
    qk, v = functional.silu(convolved).split(cell.channel_sizes, dim=-1)
    qk_slope, v_slope = (silu_slope(convolved) * tap).split(cell.channel_sizes, dim=-1)

    # Heads before what each has: queries and keys [tokens, heads, 1 + steps, key_size], the query first.
    qk, qk_slope = (_by_head(part, 1 + steps, heads) for part in (qk, qk_slope))
    v, v_slope = (_by_head(part, steps, heads) for part in (v, v_slope))
    factor = unit_norm_factor(qk)
    unit = qk * factor
    q, k = unit[:, :, 0], unit[:, :, 1:]
    beta = cell.beta(projections).mT  # [tokens, heads, steps]
    beta_slope = beta * (1 - beta / cell.largest_beta)

    log_decay = cell.log_decay(projections)
    memory = state["memory"] if log_decay is None else torch.exp(log_decay)[..., None, None] * state["memory"]
    memory = memory.to(v.dtype).mT  # α Sᵀ, [tokens, heads, value_size, key_size]
    read, c, c_slope = _trace_back(q, k, beta)
    carried = (memory @ read[..., None])[..., 0]  # α Sᵀ r₀
    y = carried + (c[..., None] * v).sum(2)

    # ∂y in queries and keys and in β: what goes through c, and α Sᵀ(∂q − Σ c ∂k).
    written = (v - k @ memory.mT).mT  # v − α Sᵀk, [tokens, heads, value_size, steps]
    through_c = written @ c_slope
    in_unit, in_beta = through_c.split([(1 + steps) * keys, steps], dim=-1)
    factors = torch.cat([torch.ones_like(c[..., :1]), -c], dim=-1)  # of ∂q and the ∂k
    in_unit = in_unit.unflatten(-1, (1 + steps, keys)) + factors[:, :, None, :, None] * memory[:, :, :, None]
    along_unit = (in_unit * unit[:, :, None]).sum(-1, keepdim=True)
    in_qk = (in_unit - along_unit * unit[:, :, None]) * (factor * qk_slope)[:, :, None]
    values = torch.diag_embed(c[..., None] * v_slope).transpose(2, 3)
    columns = [in_qk.flatten(-2), values.flatten(-2), in_beta * beta_slope[:, :, None]]
    if cell.decay is not None and projections.decay is not None:
        columns.append((carried * cell.decay.slope(projections.decay)[..., None])[..., None])
    return y, torch.cat(columns, dim=-1)


def _by_head(channels: Tensor, parts: int, heads: int) -> Tensor:
    """``[tokens, parts · heads · size]`` as ``[tokens, heads, parts, size]``."""
    return channels.unflatten(-1, (parts, heads, -1)).transpose(1, 2)


def _trace_back(q: Tensor, k: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r₀ ``[tokens, heads, key_size]``, all c ``[tokens, heads, steps]``, and their derivatives.

    The last in q, keys and β, ``[tokens, heads, steps, (1 + steps) · key_size + steps]``.
    """
    steps, keys = k.shape[2:]
    products = k @ k.mT
    read = q
    c: dict[int, Tensor] = {}
    c_slope: dict[int, Tensor] = {}
    for i in reversed(range(steps)):
        key, strength = k[:, :, i], beta[:, :, i]
        reading = (key * read).sum(-1)
        in_unit = key.new_zeros(*key.shape[:2], 1 + steps, keys)
        in_unit[:, :, 0] = key
        in_unit[:, :, 1 + i] = read
        for j, later in c.items():
            in_unit[:, :, 1 + j] = -later[..., None] * key
        slope = functional.pad(in_unit.flatten(-2), (0, steps))
        for j, later in c_slope.items():
            slope = slope - products[:, :, i, j, None] * later
        slope = slope * strength[..., None]
        slope[..., (1 + steps) * keys + i] = reading
        c[i], c_slope[i] = strength * reading, slope
        read = read - c[i][..., None] * key
    order = range(steps)
    return read, torch.stack([c[i] for i in order], dim=-1), torch.stack([c_slope[i] for i in order], dim=2)


def _rows_by_head(cell: DeltaRuleCell) -> Tensor:
    """Rows of in_proj that a head's y depends on, as columns of ``slope``, ``[heads, columns, d_model]``."""
    _, channels, beta, decay = cell.in_proj.weight.split(cell.projection_sizes)
    qk, v = channels.split(cell.channel_sizes)
    parts = [
        part.unflatten(0, (-1, cell.heads, size))
        for part, size in ((qk, cell.key_size), (v, cell.value_size))
    ]
    parts.append(beta.unflatten(0, (-1, cell.heads, 1)))
    if cell.gated:
        parts.append(decay.unflatten(0, (-1, cell.heads, 1)))
    return torch.cat([part.transpose(0, 1).flatten(1, 2) for part in parts], dim=1)
