"""Tools of all gradient rules: derivatives put onto a value, products with Jᵀ, the adjoint's hook."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from automata.errors import InputError
from implicit.fixed_point import FixedPointProblem
from implicit.ops.hand_written_passes import is_transformed


def with_gradient_of(value: Tensor, path: Tensor) -> Tensor:
    """Return a value, to the bit, with the derivatives of another tensor, of any order and in every mode.

    Example:
        >>> b = torch.ones(1, requires_grad=True)
        >>> value = with_gradient_of(torch.tensor([2.0]), 3 * b)
        >>> value.item(), torch.autograd.grad(value, b)
        (2.0, (tensor([3.]),))
    """
    return _WithGradientOf.apply(value, path)


class _WithGradientOf(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, path: Tensor) -> Tensor:  # noqa: ARG004
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: the derivative is the identity."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ARG004
        return None, gradient

    @staticmethod
    def jvp(ctx: Any, of_value: Tensor | None, of_path: Tensor | None) -> Tensor | None:  # noqa: ARG004
        return of_path


Product = Callable[[Tensor], Tensor]
"""v ↦ Jᵀ v."""
Adjoint = Callable[[Tensor, Tensor, Product], Tensor]
"""(g, Φ(z*), v ↦ Jᵀ v) ↦ v with v = g + Jᵀ v."""


def linearised(problem: FixedPointProblem, value: Tensor) -> tuple[Tensor, Product] | None:
    """Return Φ(z*), with z* held fixed, and v ↦ Jᵀ v with J = ∂zΦ there, both of one evaluation.

    Autograd keeps that evaluation. Another one, in the backward pass, may read what has changed since. The
    image has no gradient where Φ depends on nothing but z. None under ``torch.func`` and in forward mode,
    which know no hooks.

    Example:
        >>> b = torch.ones(1, requires_grad=True)
        >>> image, product = linearised(FixedPointProblem(lambda z: z / 2 + b), torch.zeros(1))
        >>> image.requires_grad, product(torch.ones(1))
        (True, tensor([0.5000]))
    """
    if is_transformed(()):
        return None
    point = value.detach().requires_grad_()
    point.register_post_accumulate_grad_hook(_forget_gradient)
    with _unpacked_once():
        image = problem.function(point)
    if is_transformed((image,)):
        return None
    if not _reaches_beyond(point, image):
        image = image.detach()
    return image, partial(_transposed_product, image, point)


def _forget_gradient(point: Tensor) -> None:
    """Drop what a backward pass leaves at z*: taken with ``create_graph=True``, it would hold the graph."""
    point.grad = None


def _reaches_beyond(point: Tensor, image: Tensor) -> bool:
    """Return whether the graph of the image has another leaf than the point."""
    if image.grad_fn is None:
        return image.requires_grad and image is not point
    open_nodes: list[Any] = [image.grad_fn]
    seen: set[Any] = {None}
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        # Nodes of leaves have a variable. Reentrant checkpointing hides leaves: its backward pass refuses.
        if getattr(node, "variable", point) is not point or node.name() == "CheckpointFunctionBackward":
            return True
        seen.add(node)
        open_nodes.extend(following for following, _ in node.next_functions)
    return False


def _unpacked_once() -> AbstractContextManager[Any]:
    """Let hooks on saved tensors unpack each of them once, however many products Jᵀ v read it.

    Checkpointing around a model would compute all anew for every product.
    """
    # PyTorch has no public name for the hooks in force; saved_tensors_hooks can only replace them.
    hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks is None:
        return nullcontext()
    pack, unpack = hooks

    def pack_once(tensor: Tensor) -> Callable[[], Tensor]:
        return cache(partial(unpack, pack(tensor)))

    return saved_tensors_hooks(pack_once, lambda kept: kept())


def _transposed_product(image: Tensor, point: Tensor, v: Tensor) -> Tensor:
    # A Φ that ignores z has no gradient in it: Jᵀ v = 0.
    return torch.autograd.grad(image, point, v, retain_graph=True, materialize_grads=True)[0]


class _FirstDerivative(torch.autograd.Function):
    """v as it is, which depends on all that Φ and g depend on and must not be taken for a constant."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, image: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return v.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ARG004
        raise InputError(
            "a second derivative is asked for; the implicit gradient has first ones only, give "
            "Solve(gradient=Phantom(...)) or Unrolled(...) for more"
        )


def with_adjoint(value: Tensor, image: Tensor, adjoint_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return z* so that a gradient g that comes back to it goes on to the image Φ(z*) as v, of the adjoint.

    Example:
        >>> b = torch.ones(1, requires_grad=True)
        >>> with_adjoint(torch.ones(1), 3 * b, lambda g: 2 * g).sum().backward(); b.grad
        tensor([6.])
    """

    def solve_adjoint(gradient: Tensor | None) -> Tensor | None:
        if gradient is None:  # what autograd passes for an undefined gradient
            return None
        with torch.no_grad():
            v = adjoint_of(gradient)
        return _FirstDerivative.apply(v, image, gradient) if torch.is_grad_enabled() else v

    # The hook must not see the backward passes of the adjoint itself, so it sits behind the image. Whoever
    # asks for the gradient at z* gets g, not v: they are given a view.
    attached = with_gradient_of(value, image)
    if not attached.requires_grad:
        return attached
    attached.register_hook(solve_adjoint)
    return attached.view_as(attached)
