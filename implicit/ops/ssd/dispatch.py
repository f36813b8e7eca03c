"""Choose the backend of the SSD scan, and check the arguments once for all of them."""

from collections.abc import Callable

from torch import Tensor

from automata.errors import InputError, unknown_name
from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.reference import ssd_reference

BACKENDS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "reference": ssd_reference,
    "chunked": ssd_chunked,
}


def ssd(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    backend: str = "chunked",
) -> tuple[Tensor, Tensor]:
    """Run the SSD scan h_t = exp(Δ_t A) h_{t-1} + Δ_t x_t B_tᵀ, y_t = h_t C_t.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``; ``heads`` is a multiple of ``groups``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.
        backend: ``"chunked"`` (matrix products) or ``"reference"`` (the readable loop).

    Returns:
        The outputs, shaped like ``x``, and the state after the last token.

    Raises:
        InputError: for an unknown backend, an empty batch or sequence, or shapes that do not fit.

    Example:
        >>> import torch
        >>> x, dt, B = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 4), torch.ones(1, 2, 1, 16)
        >>> y, state = ssd(x, dt, -torch.ones(4), B, B)
        >>> y.shape, state.shape
        (torch.Size([1, 2, 4, 8]), torch.Size([1, 4, 8, 16]))
    """
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    _check_shapes(x, dt, A, B, C, initial_state)
    return BACKENDS[backend](x, dt, A, B, C, initial_state)


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
