"""The gated delta rule, written as its definition: one step after the other.

The shapes are those of `implicit.ops.delta_rule.delta_rule`. A step is S ← α (I − β k kᵀ) S + β k vᵀ, rows
for keys and columns for values; the papers write the transpose, S ← α S (I − β k kᵀ) + β v kᵀ. DeltaNet has
one step per token and DeltaProduct more; a token reads after its last step.

Sources: DeltaNet, Yang et al. 2024, arXiv 2406.06484; gated, Yang et al. 2024, arXiv 2412.06464; several
steps per token, Siems et al. 2025, arXiv 2502.10297; β in (0, 2) for eigenvalues in (−1, 1), Grazzi et al.
2024, arXiv 2411.12537.
"""

import torch
from torch import Tensor


def delta_rule_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    initial_state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, y_t = S_tᵀ q_t, step by step.

    This is the definition that `delta_rule` is tested against, in any floating dtype and differentiable to
    any order. Arguments and results are those of `delta_rule`.

    Example:
        With β = 1 the value at a key replaces the one before.

        >>> key = torch.ones(1, 2, 1, 1)
        >>> v = torch.tensor([3.0, 5.0]).view(1, 2, 1, 1)
        >>> y, state = delta_rule_reference(key, key, v, torch.ones(1, 2, 1))
        >>> y.flatten().tolist(), state.item()
        ([3.0, 5.0], 5.0)
    """
    steps_per_token = k.shape[1] // q.shape[1]
    state = initial_state
    if state is None:
        state = v.new_zeros(v.shape[0], v.shape[2], k.shape[3], v.shape[3])
    outputs = []
    for t in range(k.shape[1]):
        decay = None if log_decay is None else log_decay[:, t]
        state = delta_rule_step(k[:, t], v[:, t], beta[:, t], state, decay)
        if (t + 1) % steps_per_token == 0:
            read = (state * q[:, t // steps_per_token, :, :, None]).sum(-2)
            outputs.append(read.to(v.dtype))  # a wider state may be carried in
    return torch.stack(outputs, dim=1), state


def delta_rule_step(
    k: Tensor, v: Tensor, beta: Tensor, state: Tensor, log_decay: Tensor | None = None
) -> Tensor:
    """Return the memory after one step, α (I − β k kᵀ) S + β k vᵀ; shapes as above without ``steps``."""
    if log_decay is not None:
        state = torch.exp(log_decay)[..., None, None] * state
    remembered = (state * k[..., None]).sum(-2)  # [batch, heads, d_v]
    return state + k[..., None] * (beta[..., None] * (v - remembered))[..., None, :]
