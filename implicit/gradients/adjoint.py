"""What the rules of the implicit gradient share: products with Jᵀ, and the hook that sets the adjoint in."""

from collections.abc import Callable

import torch
from torch import Tensor

from automata.errors import InputError


def transposed_product(image: Tensor, leaf: Tensor, v: Tensor) -> Tensor:
    """Return Jᵀ v with J the derivative of the image in the leaf, once more for every call.

    Example:
        >>> leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> transposed_product(leaf.square(), leaf, torch.ones(2))
        tensor([2., 4.])
    """
    # A Φ that ignores z has no gradient in it: Jᵀ v = 0.
    return torch.autograd.grad(image, leaf, v, retain_graph=True, materialize_grads=True)[0]


def with_adjoint(image: Tensor, adjoint_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the image so that a gradient g that comes back to it goes on as v, the solution of the adjoint.

    Args:
        image: Φ(z*), differentiable in the parameters.
        adjoint_of: g ↦ v.

    Raises:
        InputError: in a backward pass with ``create_graph=True``.

    Example:
        >>> b = torch.ones(1, requires_grad=True)
        >>> with_adjoint(3 * b, lambda g: 2 * g).sum().backward(); b.grad
        tensor([6.])
    """

    def solve_adjoint(gradient: Tensor | None) -> Tensor | None:
        if gradient is None:  # what autograd passes for an undefined gradient
            return None
        if torch.is_grad_enabled():  # v would be taken for a constant
            raise InputError(
                "create_graph is True; Implicit has first derivatives only, use Unrolled for more"
            )
        return adjoint_of(gradient)

    # The hook must not see the backward passes of the adjoint itself, so it sits on a view of the image.
    attached = image.view_as(image)
    if attached.requires_grad:
        attached.register_hook(solve_adjoint)
    return attached
