"""The state space dual (SSD) scan of Mamba-2, written as its definition: one token at a time."""

import torch
from torch import Tensor


def ssd_reference(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run h_t = exp(Δ_t A) h_{t-1} + Δ_t x_t B_tᵀ, y_t = h_t C_t, token by token.

    This is the definition that every other backend is tested against, in any floating dtype and
    differentiable to any order. Arguments and results are those of `ssd`.

    Source: Dao & Gu 2024, arXiv 2405.21060, Eq. 1 with the discretisation of section 7.

    Example:
        One head, state size 1, no decay: the scan is a running sum of Δ x.

        >>> x = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
        >>> ones = torch.ones(1, 3, 1, 1)
        >>> y, state = ssd_reference(x, torch.ones(1, 3, 1), torch.zeros(1), ones, ones)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 3.0, 6.0], 6.0)
    """
    batch, length, heads, head_size = x.shape
    heads_per_group = heads // B.shape[2]
    B = B.repeat_interleave(heads_per_group, dim=2)  # [batch, length, heads, state_size]
    C = C.repeat_interleave(heads_per_group, dim=2)
    state = x.new_zeros(batch, heads, head_size, B.shape[3]) if initial_state is None else initial_state
    outputs = []
    for t in range(length):
        state = ssd_step(x[:, t], dt[:, t], A, B[:, t], state)
        outputs.append((state * C[:, t, :, None]).sum(-1).to(x.dtype))  # a wider state may be carried in
    return torch.stack(outputs, dim=1), state


def ssd_step(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, state: Tensor) -> Tensor:
    """Return the state after one token, exp(Δ A) h + Δ x Bᵀ; shapes without ``length``, B per head."""
    decay = torch.exp(dt * A)[..., None, None]  # [batch, heads, 1, 1]
    return decay * state + (dt[..., None] * x)[..., None] * B[..., None, :]


def ssd_states(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, initial_state: Tensor) -> Tensor:
    """Return the states h_0 … h_L, initial one first, ``[batch, length + 1, heads, head_size, state_size]``.

    The arguments are those of `ssd_reference`, and the result has the dtype of ``initial_state``.
    """
    B = B.repeat_interleave(x.shape[2] // B.shape[2], dim=2)  # [batch, length, heads, state_size]
    decays = torch.exp(dt * A)[..., None, None].to(initial_state.dtype).unbind(1)
    gains = ((dt[..., None] * x)[..., None] * B[..., None, :]).to(initial_state.dtype).unbind(1)
    states = [initial_state]
    for decay, gain in zip(decays, gains, strict=True):
        states.append(torch.addcmul(gain, decay, states[-1]))
    return torch.stack(states, dim=1)
