"""Tools of all gradient rules: derivatives put onto a value, products with Jᵀ, the adjoint's hook."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
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


def image_of(problem: FixedPointProblem, value: Tensor) -> Tensor | None:
    """Return Φ(z*) with z* held fixed; None under ``torch.func`` and in forward mode, which know no hooks."""
    if is_transformed(()):
        return None
    image = problem.function(value.detach())
    return None if is_transformed((image,)) else image


def transposed_products(
    problem: FixedPointProblem, value: Tensor
) -> Callable[[], Callable[[Tensor], Tensor]]:
    """Return what evaluates Φ at z* in a backward pass, and then gives v ↦ Jᵀ v with J = ∂zΦ there.

    Autocast is then as it is now. Until then nothing is kept, so that checkpointing has nothing to repeat.
    """
    device = value.device.type
    known = torch.amp.is_autocast_available(device)
    enabled = known and torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if enabled else None

    def begin() -> Callable[[Tensor], Tensor]:
        leaf = value.detach().requires_grad_()
        with torch.enable_grad(), torch.autocast(device, dtype, enabled) if known else nullcontext():
            image = problem.function(leaf)
        if not image.requires_grad:  # Φ is constant
            return torch.zeros_like
        return partial(_transposed_product, image, leaf)

    return begin


def _transposed_product(image: Tensor, leaf: Tensor, v: Tensor) -> Tensor:
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
    """Return z* so that a gradient g that comes back to it goes on to the image Φ(z*) as v of the adjoint."""

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
