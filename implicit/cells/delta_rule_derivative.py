"""The output of DeltaNet's relatives at single tokens with its derivative in the input, written out.

Automatic differentiation would take one backward pass through the step for each feature of the output. Here
the reading is traced back through the n writes of a token: with S the memory before it, kᵢ, vᵢ and βᵢ of
write i, q the query, all keys and the query of unit length,

    rₙ = q      cᵢ = βᵢ kᵢᵀrᵢ      rᵢ₋₁ = rᵢ − cᵢ kᵢ      y = α Sᵀr₀ + Σᵢ cᵢ vᵢ

    ∂cᵢ = ∂βᵢ kᵢᵀrᵢ + βᵢ (rᵢᵀ∂kᵢ + kᵢᵀ∂q − Σⱼ﹥ᵢ (kᵢᵀkⱼ ∂cⱼ + cⱼ kᵢᵀ∂kⱼ))
    ∂y  = α Sᵀ(∂q − Σᵢ cᵢ ∂kᵢ) + Σᵢ ((vᵢ − α Sᵀkᵢ) ∂cᵢ + cᵢ ∂vᵢ) + α Sᵀr₀ ∂log α

so that the derivative of a head's y in the head's own projections, the columns of ``slope``, takes no
derivative of the memory. The rows of in_proj then lead on to the input, and norm, gate and out_proj to the
output. Unit keys (ε included) have ∂k = ρ (I − k kᵀ) ∂p, ρ the factor that p is multiplied by.

| code        | meaning                                                                                     |
|-------------|---------------------------------------------------------------------------------------------|
| ``slope``   | ``[tokens, heads, value_size, columns]``; columns: q, keys, values, β, decay of the head    |
| ``c_slope`` | ∂cᵢ in q, the keys and β of the head: ``[tokens, heads, columns of these]``                 |
"""

import torch
from torch import Tensor
from torch.nn import functional

from implicit.cells.delta_rule_parameters import DeltaRuleParameters, Projections
from implicit.cells.norm import unit_norm_factor
from implicit.cells.silu_slope import silu_slope
from implicit.ops.linear import linear
from theory.transition import State


def output_with_derivative(
    cell: DeltaRuleParameters, inputs: Tensor, state: State, injection: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the output and its derivative in the input, the state before each token held fixed.

    Inputs, state and injection are those of single tokens, ``[tokens, …]``, as `Cell.step` takes them; the
    derivative is ``[tokens, d_model, d_model]``, rows for outputs.
    """
    projections = cell.project(inputs, injection)
    y, slope = _reading(cell, projections, state)
    # The norm of a head, and on to the input: [tokens, d_model, heads · value_size]. Then the gate.
    slope = cell.norm.push_forward(y, slope).transpose(0, 1)
    along = (slope.flatten(1, 2) @ _rows_by_head(cell)).unflatten(1, slope.shape[1:3])
    along = along.permute(1, 3, 0, 2).flatten(2)
    output = cell.norm(y).flatten(1)
    if projections.gate is not None:
        gate, rows = functional.silu(projections.gate), cell.in_proj.weight[: cell.projection_sizes[0]]
        along = along * gate[:, None] + (output * silu_slope(projections.gate))[:, None] * rows.T
        output = output * gate
    weight = cell.out_proj.weight
    return linear(output, weight), linear(along, weight).mT


def _reading(cell: DeltaRuleParameters, projections: Projections, state: State) -> tuple[Tensor, Tensor]:
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


def _rows_by_head(cell: DeltaRuleParameters) -> Tensor:
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
