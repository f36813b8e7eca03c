"""The public function of the SSD scan: arguments checked once for all backends, one of them run."""

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.backends import AUTO, Explanation, default_device
from implicit.ops.request import floating_device
from implicit.ops.ssd.backends import BACKENDS
from implicit.ops.ssd.request import Request
from implicit.ops.uncompiled import uncompiled


@uncompiled
def ssd(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    backend: str = AUTO,
) -> tuple[Tensor, Tensor]:
    """Run the SSD scan h_t = exp(Δ_t A) h_{t-1} + Δ_t x_t B_tᵀ, y_t = h_t C_t.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``; ``heads`` is a multiple of ``groups``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.
        backend: ``"auto"`` (see `explain`), ``"reference"`` (the readable loop), ``"chunked"`` (matrix
            products), ``"numba"`` (our kernels for CPUs), ``"triton"`` (those for GPUs, first derivatives
            only) or ``"mamba_ssm"`` (that package's).

    Returns:
        The outputs, shaped like ``x``, and the state after the last token.

    Raises:
        InputError: for an unknown backend or one that cannot run these tensors, an empty batch or sequence,
            tensors on several devices or not floating, or shapes that do not fit.

    Example:
        >>> x, dt, B = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 4), torch.ones(1, 2, 1, 16)
        >>> y, state = ssd(x, dt, -torch.ones(4), B, B)
        >>> y.shape, state.shape
        (torch.Size([1, 2, 4, 8]), torch.Size([1, 4, 8, 16]))
    """
    _check_shapes(x, dt, A, B, C, initial_state)
    floating_device({"x": x, "dt": dt, "A": A, "B": B, "C": C, "initial_state": initial_state})
    chosen = BACKENDS.choose(Request.of(x, B, C), backend)
    return BACKENDS[chosen].run(x, dt, A, B, C, initial_state)


def explain(
    device: str | None = None,
    dtype: torch.dtype = torch.float32,
    head_size: int = 64,
    state_size: int = 128,
) -> Explanation:
    """Say which backend ``"auto"`` takes, why, and what the others lack.

    Args:
        device: type of the device of the tensors; ``"cuda"`` if there is one, else ``"cpu"``, for None.
        dtype: element type of x, B and C.
        head_size: rows of the state of a head.
        state_size: columns of the state of a head.

    Returns:
        The choice; print it to read it.

    Example:
        >>> print(explain("mps"))
        auto chooses chunked: the tensors are on mps, where it is the fastest that runs
          reference  available
          chunked    available
          numba      unavailable: ...
          triton     ...
          mamba_ssm  unavailable: the tensors are on mps; move them to a CUDA device
    """
    return BACKENDS.explain(Request(device or default_device(), (dtype,) * 3, head_size, state_size))


def _check_shapes(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> None:
    if x.ndim != 4 or B.ndim != 4:
        raise InputError(
            f"x has shape {tuple(x.shape)} and B {tuple(B.shape)}; "
            "give x as [batch, length, heads, head_size] and B as [batch, length, groups, state_size]"
        )
    batch, length, heads, head_size = x.shape
    groups, state_size = B.shape[2:]
    if batch == 0 or length == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one sequence and one token")
    if 0 in (heads, head_size, state_size):
        raise InputError(
            f"x has shape {tuple(x.shape)} and B {tuple(B.shape)}; "
            "give at least one head, and a head_size and a state_size of at least 1"
        )
    if not groups or heads % groups:
        raise InputError(f"B has {groups} groups for {heads} heads; make heads a multiple of groups")
    expected = {
        "dt": (dt, (batch, length, heads)),
        "A": (A, (heads,)),
        "B": (B, (batch, length, groups, state_size)),
        "C": (C, (batch, length, groups, state_size)),
    }
    if initial_state is not None:
        expected["initial_state"] = (initial_state, (batch, heads, head_size, state_size))
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}; with x and B as given it must be {shape}"
            )
