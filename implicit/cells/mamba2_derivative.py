"""A Mamba-2 cell's output at single tokens with its derivative in the input, written out.

Automatic differentiation would push d tangents through the step, and through the state of each of them; here
the state is touched twice. With the names of `implicit.cells.mamba2`, u the input, p = W u + injection the
projections and h₀ the state before the token:

    x, B, C = silu(w p + window)      Δ = softplus(p + bias)      a = exp(Δ A)      y = a h₀ C + Δ x BᵀC + D x
    ∂y = a h₀ ∂C + Δ x ∂(BᵀC) + (A a h₀ C + x BᵀC) ∂Δ + (Δ BᵀC + D) ∂x
    n = q r weight,  q = y silu(gate),  r = (mean q² + ε)^(−1/2)
    ∂n = (r ∂q − q r² mean(q r ∂q)) weight          ∂output = W_out ∂n

Every term of r ∂q but the first two is a matrix of weights with its rows scaled.
"""

import torch
from torch import Tensor
from torch.nn import functional

from implicit.cells.mamba2_parameters import Mamba2Parameters
from implicit.cells.silu_slope import silu_slope
from implicit.ops.linear import linear
from theory.transition import State


def output_with_derivative(
    cell: Mamba2Parameters, inputs: Tensor, state: State, injection: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the output and its derivative in the input, the state before each token held fixed.

    Inputs, state and injection are those of single tokens, ``[tokens, …]``, as `Cell.step` takes them; the
    derivative is ``[tokens, d_model, d_model]``, rows for outputs.
    """
    heads, head_size, groups, d_state = cell.heads, cell.head_size, cell.groups, cell.d_state
    parts = [cell.d_inner, groups * d_state, groups * d_state]
    W_gate, W_x, W_B, W_C, W_dt = cell.in_proj.weight.split([cell.d_inner, *parts, heads])
    projected = linear(inputs, cell.in_proj.weight)
    projected = projected if injection is None else projected + injection
    gate, channels, dt = projected.split([cell.d_inner, cell.conv_channels, heads], dim=-1)

    taps = cell.conv1d.weight[:, 0]
    convolved = (state["conv"] * taps[:, :-1]).sum(-1) + channels * taps[:, -1] + cell.conv1d.bias
    x, B, C = functional.silu(convolved).split(parts, dim=-1)
    x_slope, B_slope, C_slope = (silu_slope(convolved) * taps[:, -1]).split(parts, dim=-1)
    dt = dt + cell.dt_bias
    dt, dt_slope = functional.softplus(dt), torch.sigmoid(dt)

    # Per head: [tokens, heads] and [tokens, heads, head_size]. Per group: [tokens, groups, d_state].
    A = -torch.exp(cell.A_log)
    decay = torch.exp(dt * A)[..., None]
    x, driven = x.unflatten(-1, (heads, head_size)), (dt.repeat_interleave(head_size, dim=-1) * x)
    B, C = (part.unflatten(-1, (groups, d_state)) for part in (B, C))
    CB = (C * B).sum(-1).repeat_interleave(heads // groups, dim=-1)[..., None]
    by_group = (
        state["ssm"].to(x.dtype).unflatten(1, (groups, -1)).flatten(2, 3)
    )  # [tokens, groups, rows, d_state]
    carried = decay * (by_group @ C[..., None]).flatten(1).unflatten(-1, (heads, head_size))  # a h₀ C
    dt_factor = ((A[:, None] * carried + x * CB) * dt_slope[..., None]).flatten(-2)
    x_factor = ((dt[..., None] * CB + cell.D[:, None]).expand_as(x)).flatten(-2) * x_slope
    y = (carried + cell.D[:, None] * x).flatten(-2) + driven * CB.expand_as(x).flatten(-2)

    q = (y * functional.silu(gate)).unflatten(-1, (cell.norm.groups, -1))
    r = torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + cell.norm.epsilon)
    scale = (functional.silu(gate).unflatten(-1, (cell.norm.groups, -1)) * r).flatten(-2)

    # r ∂q with its transposed: inputs first, [tokens, d_model, d_inner], so that W_out is one large product.
    C_along = (W_C.T * C_slope[:, None]).unflatten(-1, (groups, d_state)).transpose(1, 2)
    B_along = (W_B.T * B_slope[:, None]).unflatten(-1, (groups, d_state)).transpose(1, 2)
    CB_along = C_along @ B[..., None] + B_along @ C[..., None]  # ∂(BᵀC), [tokens, groups, d_model, 1]
    rows = (decay.expand_as(x).flatten(1) * scale).unflatten(-1, (groups, -1))[..., None] * by_group
    rows = torch.cat([rows, (driven * scale).unflatten(-1, (groups, -1))[..., None]], dim=-1)
    along = torch.cat([C_along, CB_along], dim=-1) @ rows.mT  # [tokens, groups, d_model, rows of a group]
    along = along.transpose(1, 2).flatten(-2)
    along = torch.addcmul(along, W_x.T, (x_factor * scale)[:, None])
    along = along.addcmul_(W_dt.repeat_interleave(head_size, dim=0).T, (dt_factor * scale)[:, None])
    gate_factor = ((y * silu_slope(gate)).unflatten(-1, (cell.norm.groups, -1)) * r).flatten(-2)
    along = along.addcmul_(W_gate.T, gate_factor[:, None])

    # The part of the mean has one column for each group of the norm.
    weight = cell.out_proj.weight * cell.norm.weight
    means = (along.unflatten(-1, (cell.norm.groups, -1)).transpose(1, 2) @ q[..., None])[..., 0] / q.shape[-1]
    outputs = torch.einsum("tgi,jgi->tgj", q * r, weight.unflatten(-1, (cell.norm.groups, -1)))
    derivative = linear(along, weight) - means.mT @ (outputs * r)
    return outputs.sum(1), derivative.mT
