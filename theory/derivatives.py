"""Directional derivatives and dense Jacobians through ``torch.func``, in chunks that bound the memory."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vjp, vmap

from theory.forward_mode import jvp

MAX_CHUNK_ENTRIES = 2**22
"""The largest number of float64 entries (32 MiB) in one chunk of a matrix or one batch of tangents."""


def _chunk(size: int) -> int:
    return max(1, MAX_CHUNK_ENTRIES // max(1, size))


@torch.no_grad()
def directional(function: Callable[[Tensor], Tensor], point: Tensor, directions: Tensor) -> Tensor:
    """Return the derivatives of a vector function along several directions, by forward-mode autodiff.

    The function maps ``[n]`` to ``[m]``; directions ``[k, n]`` give ``J @ direction``, ``[k, m]``.
    """

    def along(direction: Tensor) -> Tensor:
        return jvp(function, (point,), (direction,))[1]

    return vmap(along, chunk_size=_chunk(point.numel()))(directions)


def jacobian(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    """Return ∂function_i/∂point_j, ``[m, n]``, by forward mode: one derivative an input."""
    identity = torch.eye(point.numel(), dtype=point.dtype, device=point.device)
    return directional(function, point, identity).mT


@torch.no_grad()
def jacobian_by_rows(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    """Return ∂function_i/∂point_j, ``[m, n]``, by reverse mode: one derivative an output."""
    try:
        rows = _rows_by_autograd(function, point)
    except RuntimeError:  # within a transformation of torch.func, or a backward pass that cannot be batched
        rows = None
    return _rows_by_vjp(function, point) if rows is None else rows


def _rows_by_autograd(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor | None:
    """In a third of the time of ``torch.func.vjp``, which also imports a compiler; None if it cannot."""
    if torch.is_inference_mode_enabled():  # nothing is recorded
        return None
    with torch.enable_grad():
        variable = point.detach().requires_grad_()
        image = function(variable)
    if not image.requires_grad:
        return None
    rows: list[Tensor] = []
    identity = torch.eye(image.numel(), dtype=image.dtype, device=image.device)
    for chunk in identity.split(_chunk(point.numel())):
        # An error, which is caught above, if the image does not depend on the variable.
        rows += torch.autograd.grad(image, variable, chunk, is_grads_batched=True, retain_graph=True)
    return torch.cat(rows)


def _rows_by_vjp(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    pull_back: Callable[[Tensor], tuple[Tensor]]
    image, pull_back = vjp(function, point)[:2]
    identity = torch.eye(image.numel(), dtype=point.dtype, device=point.device)
    return vmap(lambda row: pull_back(row)[0], chunk_size=_chunk(point.numel()))(identity)
