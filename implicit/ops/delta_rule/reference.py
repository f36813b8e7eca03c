"""The gated delta rule, written as its definition: one step after the other.

| code          | paper | meaning                                        | shape                           |
|---------------|-------|------------------------------------------------|---------------------------------|
| ``q``         | q     | queries, which read the memory                 | ``[batch, length, heads, d_k]`` |
| ``k``         | k     | keys, usually of unit length                   | ``[batch, steps, heads, d_k]``  |
| ``v``         | v     | values                                         | ``[batch, steps, heads, d_v]``  |
| ``beta``      | β     | strength of writing                            | ``[batch, steps, heads]``       |
| ``log_decay`` | log α | logarithm of the decay; None for α = 1         | ``[batch, steps, heads]``       |
| ``state``     | Sᵀ    | the memory; rows for keys, columns for values  | ``[batch, heads, d_k, d_v]``    |

With the memory as stored here, a step is S ← α (I − β k kᵀ) S + β k vᵀ. The papers write its transpose,
S ← α S (I − β k kᵀ) + β v kᵀ. There are ``length`` tokens and a whole number n of steps for each of them
(``steps = n · length``), so DeltaNet has n = 1 and DeltaProduct more; a token reads after its last step.

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

    This is the definition that the other form is tested against. It works in any floating dtype and is
    differentiable to any order. The arguments are those of `delta_rule`; the table above has their shapes. It
    returns the outputs, ``[batch, length, heads, d_v]``, and the memory after the last token.

    Example:
        What was written at a key is replaced when the key comes again with β = 1.

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
