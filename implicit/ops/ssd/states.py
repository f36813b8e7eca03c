"""The state of the SSD scan after every token, for what has to start again in the middle of a sequence."""

import torch
from torch import Tensor


def ssd_states(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, initial_state: Tensor) -> Tensor:
    """Return the states h_0 … h_L of h_t = exp(Δ_t A) h_{t-1} + Δ_t x_t B_tᵀ, the initial one first.

    The states of all tokens are stored, so it is meant for windows of a sequence rather than a long one.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``; ``heads`` is a multiple of ``groups``.
        initial_state: h_0, ``[batch, heads, head_size, state_size]``; its dtype is that of the result.

    Returns:
        ``[batch, length + 1, heads, head_size, state_size]``.

    Example:
        One head, state size 1, no decay: the states are the running sums of Δ x.

        >>> x = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
        >>> ones = torch.ones(1, 3, 1, 1)
        >>> ssd_states(x, torch.ones(1, 3, 1), torch.zeros(1), ones, torch.zeros(1, 1, 1, 1)).flatten()
        tensor([0., 1., 3., 6.])
    """
    B = B.repeat_interleave(x.shape[2] // B.shape[2], dim=2)  # [batch, length, heads, state_size]
    decays = torch.exp(dt * A)[..., None, None].to(initial_state.dtype).unbind(1)
    gains = ((dt[..., None] * x)[..., None] * B[..., None, :]).to(initial_state.dtype).unbind(1)
    states = [initial_state]
    for decay, gain in zip(decays, gains, strict=True):
        states.append(torch.addcmul(gain, decay, states[-1]))
    return torch.stack(states, dim=1)
