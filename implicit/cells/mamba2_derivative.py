"""The derivative of a Mamba-2 cell's output in its input at single tokens, written out.

Automatic differentiation would push d tangents through the step, and through the state of each of them; here
the state is touched twice. With the names of `implicit.cells.mamba2`, u the input, p = W u + injection the
projections, primes for derivatives and h the state after the token:

    x, B, C = silu(q),  q = w p + (window)        Δ = softplus(p + bias)        a = exp(Δ A)
    h = a h₀ + Δ x Bᵀ                             y = h C + D x
    ∂y = (Δ BᵀC + D) ∂x + (A a h₀ C + x BᵀC) ∂Δ + h ∂C + Δ x Cᵀ∂B
    n = q r weight,  q = y silu(gate),  r = (mean q² + ε)^(−1/2)
    ∂n = r (∂q − q r² mean(q ∂q)) weight          ∂output = W_out ∂n
"""

import torch
from torch import Tensor
from torch.nn import functional

from implicit.cells.mamba2 import CellState, Mamba2Cell


def output_derivative(cell: Mamba2Cell, inputs: Tensor, state: CellState, injection: Tensor) -> Tensor:
    """Return the derivative of the output in the input, the state before each token held fixed.

    Args:
        cell: whose `step` is differentiated.
        inputs: ``[tokens, d_model]``.
        state: before each of the tokens, ``[tokens, …]``.
        injection: ``[tokens, d_in_proj]``.

    Returns:
        ``[tokens, d_model, d_model]``, rows for outputs. It takes 4 · tokens · d_inner · d_model numbers of
        memory on the way.

    Example:
        >>> cell = Mamba2Cell(d_model=8, head_size=4, d_state=2)
        >>> u, state, injection = torch.ones(1, 8), cell.init_state(1), torch.zeros(1, cell.d_in_proj)
        >>> expected = torch.func.jacrev(lambda u: cell.step(u, state, injection)[0])(u)[0, :, 0]
        >>> torch.allclose(output_derivative(cell, u, state, injection)[0], expected, atol=1e-6)
        True
    """
    heads, head_size, groups, d_state = cell.heads, cell.head_size, cell.groups, cell.d_state
    parts = [cell.d_inner, cell.d_inner, groups * d_state, groups * d_state, heads]
    W_gate, W_x, W_B, W_C, W_dt = cell.in_proj.weight.split(parts)
    projected = functional.linear(inputs, cell.in_proj.weight) + injection
    gate, channels, dt = projected.split([cell.d_inner, cell.conv_channels, heads], dim=-1)

    taps = cell.conv1d.weight[:, 0]
    convolved = (state.window * taps[:, :-1]).sum(-1) + channels * taps[:, -1] + cell.conv1d.bias
    x, B, C = functional.silu(convolved).split(parts[1:4], dim=-1)
    x_slope, B_slope, C_slope = (_silu_slope(convolved) * taps[:, -1]).split(parts[1:4], dim=-1)
    dt = dt + cell.dt_bias
    dt, dt_slope = functional.softplus(dt), torch.sigmoid(dt)

    per_head = heads // groups
    x = x.unflatten(-1, (heads, head_size))  # [tokens, heads, head_size]
    B, C = (part.unflatten(-1, (groups, d_state)) for part in (B, C))  # [tokens, groups, d_state]
    CB = (C * B).sum(-1).repeat_interleave(per_head, dim=-1)  # [tokens, heads]
    C_columns = C.repeat_interleave(per_head, dim=-2)[..., None]  # [tokens, heads, d_state, 1]
    A = -torch.exp(cell.A_log)
    decay = torch.exp(dt * A)
    carried = (
        decay[..., None] * (state.ssm.to(x.dtype) @ C_columns)[..., 0]
    )  # a h₀ C, [tokens, heads, head_size]
    driven = dt[..., None] * x
    y = (carried + (driven * CB[..., None]) + cell.D[:, None] * x).flatten(-2)

    # Derivatives in u have their d_model columns last.
    C_along = (C_slope[..., None] * W_C).unflatten(
        -2, (groups, d_state)
    )  # ∂C, [tokens, groups, d_state, d_model]
    B_along = (C[..., None, :] @ (B_slope[..., None] * W_B).unflatten(-2, (groups, d_state)))[
        ..., 0, :
    ]  # Cᵀ∂B
    from_C = state.ssm.to(x.dtype).unflatten(1, (groups, per_head)).flatten(2, 3) @ C_along
    BC_along = B_along + (B[..., None, :] @ C_along)[..., 0, :]  # ∂(BᵀC), [tokens, groups, d_model]
    along = from_C.unflatten(2, (per_head, head_size)).flatten(1, 2) * decay[..., None, None]
    along = along + driven[..., None] * BC_along.repeat_interleave(per_head, dim=1)[..., None, :]
    along = (
        along + ((A[:, None] * carried + x * CB[..., None]) * dt_slope[..., None])[..., None] * W_dt[:, None]
    )
    along = along.flatten(1, 2)  # ∂y but for ∂x, [tokens, d_inner, d_model]
    x_factor = (dt * CB + cell.D).repeat_interleave(head_size, dim=-1) * x_slope
    along = along + x_factor[..., None] * W_x

    opened = functional.silu(gate)
    along = opened[..., None] * along + (y * _silu_slope(gate))[..., None] * W_gate  # ∂q
    q = (y * opened).unflatten(-1, (cell.norm.groups, -1))
    factor = torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + cell.norm.epsilon)
    along = along.unflatten(-2, (cell.norm.groups, -1))
    means = (q[..., None, :] @ along) / q.shape[-1]  # mean(q ∂q), [tokens, groups, 1, d_model]
    along = (along - (q * factor.square())[..., None] * means) * factor[..., None]
    weight = cell.out_proj.weight * cell.norm.weight
    return weight @ along.flatten(-3, -2)


def _silu_slope(x: Tensor) -> Tensor:
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))
