"""Forward-mode derivatives without the detour that PyTorch takes for products and sums with constants.

Where one operand has no tangent, such as a weight, PyTorch makes up one of zeros, and goes through Python
code to learn the shape of what follows from it: more than half the time of the derivative of a small model.
Here a constant stays one: (x + c)' = x', (c x)' = c x' and (x / c)' = x' / c.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

_SUMS: frozenset[Any] = frozenset({torch.add, Tensor.add})
_DIFFERENCES: frozenset[Any] = frozenset({torch.sub, Tensor.sub})
_PRODUCTS: frozenset[Any] = frozenset({torch.mul, Tensor.mul})
_QUOTIENTS: frozenset[Any] = frozenset({torch.div, Tensor.div})
_LEFT = _SUMS | _DIFFERENCES | _PRODUCTS | _QUOTIENTS | {Tensor.__rsub__}
"""Operations that are affine in their left operand."""
_RIGHT = _SUMS | _DIFFERENCES | _PRODUCTS
"""Operations that are affine in their right operand."""


def jvp(function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the value of a function and its derivative along tangents, as ``torch.func.jvp`` does.

    Example:
        >>> weight = torch.tensor([1.0, 2.0])
        >>> jvp(lambda x: weight * x.square() + 1, (torch.tensor([1.0, 3.0]),), (torch.ones(2),))
        (tensor([ 2., 19.]), tensor([ 2., 12.]))
    """
    _load()

    def with_constants(*arguments: Tensor) -> Any:
        with _Constants(), sdpa_kernel(SDPBackend.MATH):  # other kernels of attention have no forward mode
            return function(*arguments)

    return torch.func.jvp(with_constants, primals, tangents)


@functools.cache
def _load() -> None:
    """Have PyTorch load its forward-mode rules, once, without the warning that comes with them."""
    # PyTorch compiles its forward-mode rules at the first use and warns that torch.jit.script is deprecated;
    # no caller can act on that, and where warnings are errors it would end the analysis.
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):  # before and since torch 2.14
            warnings.simplefilter("ignore", category)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


class _Constants(TorchFunctionMode):
    """Differentiates sums, products and quotients of a tensor that has a tangent and one that has none."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in _LEFT and len(args) == 2 and not kwargs:
            found = _with_constant(func, *args)
            if found is not None:
                return found
        return func(*args, **(kwargs or {}))


def _with_constant(func: Callable[..., Tensor], left: Any, right: Any) -> Tensor | None:
    """Return the result with its tangent, or None unless one operand is a constant and the rule is known."""
    from_left, from_right = dual(left), dual(right)
    if from_left is not None and from_right is None:
        primal, tangent = from_left
        value = func(primal, right)
        if func in _PRODUCTS or func in _QUOTIENTS:
            tangent = func(tangent, right)
        elif func is Tensor.__rsub__:
            tangent = -tangent
    elif from_right is not None and from_left is None and func in _RIGHT:
        primal, tangent = from_right
        value = func(left, primal)
        if func in _PRODUCTS:
            tangent = func(left, tangent)
        elif func in _DIFFERENCES:
            tangent = -tangent
    else:
        return None
    # A tangent of its own with the shape and type of the value, as an operation in place may follow.
    tangent = torch.zeros_like(value) + tangent
    try:
        return forward_ad.make_dual(value, tangent)
    except RuntimeError:  # within a vmap inside of the function, the tangent lies deeper
        return None


def dual(operand: Any) -> tuple[Tensor, Tensor] | None:
    """Return primal and tangent of what is being differentiated; None of a constant, or if it is unknown."""
    if not isinstance(operand, Tensor) or isinstance(operand, nn.Parameter):
        return None
    try:
        primal, tangent = forward_ad.unpack_dual(operand)
    except RuntimeError:  # of a vmap again
        return None
    return None if tangent is None else (primal, tangent)


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

    chunk = _chunk(point.numel())
    return vmap(along, chunk_size=chunk if len(directions) > chunk else None)(directions)


@torch.no_grad()
def derivative_along(function: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> Tensor:
    """Return the derivative of a vector function along one direction, ``[n]``, which need not be mapped."""
    tangent: Tensor = jvp(function, (point,), (direction,))[1]
    return tangent


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
    if rows is not None:
        return rows
    pull_back: Callable[[Tensor], tuple[Tensor]]
    image, pull_back = vjp(function, point)[:2]
    identity = torch.eye(image.numel(), dtype=point.dtype, device=point.device)
    return vmap(lambda row: pull_back(row)[0], chunk_size=_chunk(point.numel()))(identity)


def _rows_by_autograd(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor | None:
    """The rows without ``torch.func.vjp``, which is slower and imports a compiler; None if that fails."""
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
