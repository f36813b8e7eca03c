"""The gated delta rule as matrix products over chunks of the sequence.

With S the memory before a chunk, g_i the sum of the log decays up to and with step i, and u_i what step i
adds at its key:

    S_i = exp(g_i) S + Σ_{j ≤ i} exp(g_i − g_j) k_j u_jᵀ
    u_i = β_i (v_i − exp(g_i) Sᵀ k_i − Σ_{j < i} exp(g_i − g_j) (k_i · k_j) u_j)

The second line is a unit lower triangular system for all u of a chunk (the UT transform of Yang et al. 2024,
arXiv 2406.06484; with decays arXiv 2412.06464); the first then gives outputs and the next memory.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.backends import check_shapes, floating_device
from implicit.ops.delta_rule.reference import delta_rule_reference
from implicit.ops.hand_written_passes import Arguments, not_finite_sequences, op_with_passes


class Decays:
    """The share of the memory left between two places of a chunk, from log decays ``[rows, steps, 1]``.

    The logarithms are summed in float64: after a decay that all but erases the memory, a sum in float32 has
    lost the digits of the decays that follow, which only their differences need. ``between`` is from step j
    to step i ≥ j, ``[rows, i, j]``; 0 for i < j.
    """

    def __init__(self, log_decay: Tensor) -> None:
        total = log_decay.double().cumsum(1)
        self.since_start = total.exp().to(log_decay.dtype)
        self.to_end = (total[:, -1:] - total).exp().to(log_decay.dtype)
        self.over_chunk = self.since_start[:, -1:]
        (self.between,) = _between(log_decay)


def _definition(log_decay: Tensor) -> tuple[Tensor]:
    # Above the diagonal the exponent is positive and could overflow.
    return (_differences(log_decay).clamp(max=0).exp().tril(),)


def _forward(log_decay: Tensor) -> tuple[Tensor]:
    return (_differences(log_decay).clamp_(max=0).exp_().tril_(),)


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    """Add up what lies across step m: ∂L/∂log α_m = Σ_{i ≥ m > j} (Ḃ ⊙ B)_ij.

    Row sums less column sums of Ḃ ⊙ B would be cheaper; but where a step erases the memory, and all of these
    are tiny, they leave the rounding of entries that cancel.
    """
    (log_decay,) = inputs
    (along,) = _forward(log_decay)
    along.mul_(gradients[0])
    return (along.flip(1).cumsum(1).flip(1).tril_(-1).sum(2, keepdim=True),)


def _differences(log_decay: Tensor) -> Tensor:
    total = log_decay.double().cumsum(1)
    return (total - total.mT).to(log_decay.dtype)


_between = op_with_passes(_definition, _forward, _backward)


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def in_full_precision(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Return the function as one that autocast leaves alone: triangular systems have no half precision."""

    @functools.wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Returned:
        device = next(value.device.type for value in args if isinstance(value, Tensor))
        with torch.autocast(device, enabled=False):
            return function(*args, **options)

    return called


CHUNK_SIZE = 32
"""Steps per chunk unless told otherwise: the fastest, or within 10% of it, of 16 to 64 on a CPU."""


@in_full_precision
def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    initial_state: Tensor | None = None,
    chunk_size: int = CHUNK_SIZE,
) -> tuple[Tensor, Tensor]:
    """Run S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, y_t = S_tᵀ q_t, a chunk of steps at a time.

    Half-precision inputs are accumulated in float32, and the state stays so; the outputs come back in the
    dtype of ``v``. It is differentiable to any order and in forward mode. InputError for an empty batch or
    sequence, tensors on several devices or not floating, shapes that do not fit, or a chunk size below 1.

    Args:
        q: queries, ``[batch, length, heads, d_k]``.
        k: keys, ``[batch, n · length, heads, d_k]`` for n steps per token; the token reads after the last.
        v: values, ``[batch, n · length, heads, d_v]``.
        beta: strengths of writing, ``[batch, n · length, heads]``.
        log_decay: logarithms of the decays, finite, shaped like ``beta``; no decay if None.
        initial_state: memory before the first token, ``[batch, heads, d_k, d_v]``; zero if None.
        chunk_size: rounded up to whole tokens; the last chunk may be shorter.

    Returns:
        The outputs, ``[batch, length, heads, d_v]``, and the memory after the last token.

    Example:
        >>> q, v, beta = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 4, 3), torch.ones(1, 2, 4)
        >>> y, state = delta_rule(q, q, v, beta)
        >>> y.shape, state.shape
        (torch.Size([1, 2, 4, 3]), torch.Size([1, 4, 8, 3]))
    """
    if chunk_size < 1:
        raise InputError(f"chunk_size is {chunk_size}; give at least 1")
    _check_shapes(q, k, v, beta, log_decay, initial_state)
    floating_device(
        {"q": q, "k": k, "v": v, "beta": beta, "log_decay": log_decay, "initial_state": initial_state}
    )
    dtype = v.dtype
    given: tuple[Any, ...] = (q, k, v, beta, log_decay, initial_state)
    batch, length, heads = q.shape[:3]
    steps_per_token = k.shape[1] // length
    q, k, v = (rows(tensor) for tensor in (q, k, v))
    beta = rows(beta[..., None])
    log_decay = None if log_decay is None else rows(log_decay[..., None])
    state = None if initial_state is None else initial_state.to(v.dtype).flatten(0, 1)
    tokens = -(-chunk_size // steps_per_token)  # per chunk
    outputs = []
    for start in range(0, length, tokens):
        of_tokens = slice(start, start + tokens)
        of_steps = slice(start * steps_per_token, (start + tokens) * steps_per_token)
        decays = None if log_decay is None else Decays(log_decay[:, of_steps])
        keys = k[:, of_steps]
        added = solve_chunk(keys, v[:, of_steps], beta[:, of_steps], decays, state)
        outputs.append(_read(q[:, of_tokens], keys, added, decays, state, steps_per_token))
        state = _advance(keys, added, decays, state)
    assert state is not None  # there is at least one chunk
    y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
    y, state = y.unflatten(0, (batch, heads)).transpose(1, 2).to(dtype), state.unflatten(0, (batch, heads))
    repeated = not_finite_sequences(y)
    if repeated is not None:
        taken: Any = (None if part is None else part[repeated] for part in given)
        own = delta_rule_reference(*taken)
        y, state = (
            whole.index_copy(0, repeated, part.to(whole.dtype))
            for whole, part in zip((y, state), own, strict=True)
        )
    return y, state


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


def rows(tensor: Tensor) -> Tensor:
    """Return ``[batch, steps, heads, features]`` as rows, ``[batch · heads, steps, features]``.

    In float32 or wider, and in order in memory: matrix products would make a copy each time.
    """
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32)).transpose(1, 2).flatten(0, 1)


def solve_chunk(k: Tensor, v: Tensor, beta: Tensor, decays: Decays | None, state: Tensor | None) -> Tensor:
    """Return what every step of a chunk adds at its key, u of the formula above, ``[rows, steps, d_v]``.

    Keys and values are those of `rows`, ``beta`` is ``[rows, steps, 1]``, and the state before the chunk
    ``[rows, d_k, d_v]``; without decays or state if None.
    """
    written, expected = beta * k, beta * v
    system = written @ k.mT
    if decays is not None:
        system = system * decays.between
        written = written * decays.since_start
    if state is not None:
        expected = torch.baddbmm(expected, written, state, alpha=-1)
    # Reads what stands below the diagonal only.
    return torch.linalg.solve_triangular(system, expected, upper=False, unitriangular=True)


def _read(
    q: Tensor, k: Tensor, added: Tensor, decays: Decays | None, state: Tensor | None, steps_per_token: int
) -> Tensor:
    """The outputs of a chunk, ``[rows, tokens, d_v]``: each token reads after its last step."""
    last = slice(steps_per_token - 1, None, steps_per_token)
    scores = q @ k.mT  # [rows, tokens, steps]
    if decays is None:
        steps = k.shape[1]
        scores = scores * torch.ones(steps, steps, dtype=k.dtype, device=k.device).tril()[last]
    else:
        scores = scores * decays.between[:, last]
        q = q * decays.since_start[:, last]
    outputs = scores @ added
    return outputs if state is None else torch.baddbmm(outputs, q, state)


def _advance(k: Tensor, added: Tensor, decays: Decays | None, state: Tensor | None) -> Tensor:
    """The memory after a chunk."""
    if decays is not None:
        k = k * decays.to_end
        state = None if state is None else decays.over_chunk * state
    return k.mT @ added if state is None else torch.baddbmm(state, k.mT, added)


@in_full_precision
def delta_rule_states(
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    log_decay: Tensor | None = None,
    steps_per_token: int = 1,
) -> Tensor:
    """Return the memory before every token and after the last, ``[batch, steps / n + 1, heads, d_k, d_v]``.

    The arguments are those of `delta_rule_reference`, n is ``steps_per_token``, and the result has the dtype
    of ``initial_state``.
    """
    batch, steps, heads = k.shape[:3]
    k, v, beta = (rows(tensor).to(initial_state.dtype) for tensor in (k, v, beta[..., None]))
    if log_decay is not None:
        log_decay = rows(log_decay[..., None]).to(initial_state.dtype)
    state = initial_state.flatten(0, 1)
    visited = [state[:, None]]
    for start in range(0, steps, CHUNK_SIZE):
        chunk = slice(start, start + CHUNK_SIZE)
        decays = None if log_decay is None else Decays(log_decay[:, chunk])
        added = solve_chunk(k[:, chunk], v[:, chunk], beta[:, chunk], decays, state)
        gains = k[:, chunk, :, None] * added[..., None, :]  # [rows, steps, d_k, d_v]
        if decays is None:
            after = state[:, None] + gains.cumsum(1)
        else:
            gained = (decays.between @ gains.flatten(2)).view_as(gains)
            if not_finite_sequences(gained) is not None:  # zeros above the diagonal times NaN are NaN
                finite = gains.isfinite()
                gained = (decays.between @ gains.masked_fill(~finite, 0).flatten(2)).view_as(gains)
                gained = gained + gains.masked_fill(finite, 0).cumsum(1)
            after = decays.since_start[..., None] * state[:, None] + gained
        visited.append(after)
        state = after[:, -1]
    after = torch.cat(visited[1:], dim=1)[:, steps_per_token - 1 :: steps_per_token]
    return torch.cat([visited[0], after], dim=1).unflatten(0, (batch, heads)).transpose(1, 2)
