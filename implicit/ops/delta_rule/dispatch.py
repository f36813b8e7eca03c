"""Run the gated delta rule by the form asked for, with the arguments checked once for both."""

from torch import Tensor

from automata.errors import InputError, unknown_name
from implicit.ops.backends import AUTO, check_shapes, floating_device
from implicit.ops.delta_rule.chunked import delta_rule_chunked
from implicit.ops.delta_rule.reference import delta_rule_reference

FORMS = {"chunked": delta_rule_chunked, "reference": delta_rule_reference}
"""By name, the one that ``"auto"`` takes first."""


def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    initial_state: Tensor | None = None,
    backend: str = AUTO,
) -> tuple[Tensor, Tensor]:
    """Run S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, y_t = S_tᵀ q_t.

    InputError for an unknown backend, an empty batch or sequence, tensors on several devices or not floating,
    or shapes that do not fit.

    Args:
        q: queries, ``[batch, length, heads, d_k]``.
        k: keys, ``[batch, n · length, heads, d_k]`` for n steps per token; the token reads after the last.
        v: values, ``[batch, n · length, heads, d_v]``.
        beta: strengths of writing, ``[batch, n · length, heads]``.
        log_decay: logarithms of the decays, shaped like ``beta``; no decay if None.
        initial_state: memory before the first token, ``[batch, heads, d_k, d_v]``; zero if None.
        backend: ``"chunked"`` (matrix products, also ``"auto"``) or ``"reference"`` (the readable loop).

    Returns:
        The outputs, ``[batch, length, heads, d_v]``, and the memory after the last token.

    Example:
        >>> import torch
        >>> q, v, beta = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 4, 3), torch.ones(1, 2, 4)
        >>> y, state = delta_rule(q, q, v, beta)
        >>> y.shape, state.shape
        (torch.Size([1, 2, 4, 3]), torch.Size([1, 4, 8, 3]))
    """
    _check_shapes(q, k, v, beta, log_decay, initial_state)
    floating_device(
        {"q": q, "k": k, "v": v, "beta": beta, "log_decay": log_decay, "initial_state": initial_state}
    )
    if backend not in (AUTO, *FORMS):
        raise unknown_name("backend", backend, [AUTO, *FORMS])
    form = FORMS["chunked" if backend == AUTO else backend]
    return form(q, k, v, beta, log_decay, initial_state)


def _check_shapes(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, initial_state: Tensor | None
) -> None:
    for name, tensor in {"q": q, "k": k, "v": v}.items():
        if tensor.ndim != 4 or 0 in tensor.shape:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}; give it as [batch, length, heads, features], "
                "at least 1 of each"
            )
    batch, length, heads, d_k = q.shape
    steps, d_v = k.shape[1], v.shape[3]
    if steps % length:
        raise InputError(f"k has {steps} steps for {length} tokens of q; make it a multiple of that")
    expected = {
        "k": (k, (batch, steps, heads, d_k)),
        "v": (v, (batch, steps, heads, d_v)),
        "beta": (beta, (batch, steps, heads)),
        "log_decay": (log_decay, (batch, steps, heads)),
        "initial_state": (initial_state, (batch, heads, d_k, d_v)),
    }
    check_shapes(expected, "q, k and v")
