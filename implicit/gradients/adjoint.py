"""Tools of all gradient rules: derivatives put onto a value, products with Jᵀ, the adjoint's hook."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import FixedPointProblem
from implicit.ops.hand_written_passes import is_transformed


def with_gradient_of(value: Tensor, path: Tensor) -> Tensor:
    """Return a value, to the bit, with the derivatives of another tensor of its shape, and none of its own.

    Recording a gradient changes no result: z* keeps the residual and the status that it was found with. The
    derivatives are of any order and in every mode.

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


def linearised(problem: FixedPointProblem, value: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return z* as a leaf and its image; None under ``torch.func`` and in forward mode, which know no leaves.

    Example:
        >>> leaf, image = linearised(FixedPointProblem(torch.cos), torch.zeros(1, 1, 1))
        >>> transposed_product(image, leaf, torch.ones(1, 1, 1)).item()
        -0.0
    """
    if is_transformed(()):
        return None
    leaf = value.detach().requires_grad_()
    image = problem.function(leaf)
    return None if is_transformed((image,)) else (leaf, image)


def transposed_product(image: Tensor, leaf: Tensor, v: Tensor) -> Tensor:
    """Return Jᵀ v with J the derivative of the image in the leaf, once more for every call."""
    # A Φ that ignores z has no gradient in it: Jᵀ v = 0.
    return torch.autograd.grad(image, leaf, v, retain_graph=True, materialize_grads=True)[0]


class _FirstDerivative(torch.autograd.Function):
    """v as it is, which depends on all that Φ depends on and must not be taken for a constant."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, image: Tensor) -> Tensor:  # noqa: ARG004
        return v.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ARG004
        raise InputError(
            "a second derivative is asked for; the implicit gradient has first ones only, give "
            "Solve(gradient=Phantom(...)) or Unrolled(...) for more"
        )


def with_adjoint(value: Tensor, image: Tensor, adjoint_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return z* so that a gradient g that comes back to it goes on to the image Φ(z*) as v, of the adjoint.

    Raises:
        InputError: where a gradient that was taken with ``create_graph=True`` is differentiated once more.

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
        return _FirstDerivative.apply(v, image) if torch.is_grad_enabled() else v

    # The hook must not see the backward passes of the adjoint itself, so it sits behind the image.
    attached = with_gradient_of(value, image)
    if attached.requires_grad:
        attached.register_hook(solve_adjoint)
    return attached
