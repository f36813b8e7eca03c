"""Ops made by `op_with_passes`: by hand for training, by the definition for every other derivative."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from implicit.ops.hand_written_passes import Arguments, op_with_passes

CALLS: list[str] = []


def definition(x: Tensor, y: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    squares = x * x if scale is None else x * x * scale
    return x * y.sin(), squares.sum(-1)


def forward(x: Tensor, y: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    CALLS.append("forward")
    return definition(x, y, scale)


def backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    CALLS.append("backward")
    x, y, scale = inputs
    of_product = torch.zeros_like(x) if gradients[0] is None else gradients[0]
    of_squares = torch.zeros_like(x) if gradients[1] is None else gradients[1][..., None]
    of_scale = None if scale is None else x * x * of_squares
    of_x = of_product * y.sin() + 2 * x * of_squares * (1 if scale is None else scale)
    return of_x, of_product * x * y.cos(), of_scale


OP = op_with_passes(definition, forward, backward)


def arguments(present: int, *batch: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*batch, 3, generator=generator, dtype=torch.float64) for _ in range(present)]


def complete(tensors: tuple[Tensor, ...]) -> list[Tensor | None]:
    return [*tensors, *[None] * (3 - len(tensors))]


both_numbers_of_inputs = pytest.mark.parametrize("present", [2, 3])


@both_numbers_of_inputs
def test_training_runs_what_was_written_by_hand(present: int) -> None:
    leaves = [tensor.requires_grad_() for tensor in arguments(present)]
    CALLS.clear()
    product, squares = OP(*complete(tuple(leaves)))
    gradients = torch.autograd.grad(product.sum() + squares, leaves)
    assert CALLS == ["forward", "backward"]
    product, squares = definition(leaves[0], leaves[1], leaves[2] if present == 3 else None)
    expected = torch.autograd.grad(product.sum() + squares, leaves)
    torch.testing.assert_close(gradients, expected, rtol=1e-14, atol=1e-15)  # float64 rounding


def test_without_gradients_nothing_is_kept() -> None:
    leaves = [tensor.requires_grad_() for tensor in arguments(3)]
    with torch.no_grad():
        assert all(output.grad_fn is None for output in OP(*leaves))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in forward mode
def test_derivatives_in_forward_mode_and_of_batches_by_finite_differences() -> None:
    leaves = [tensor.requires_grad_() for tensor in arguments(3)]
    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(OP, leaves, check_forward_ad=True, check_batched_grad=True)


Function = Callable[..., Tensor]
TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "gradient": grad,
    "vmap of gradient": lambda f: vmap(grad(f)),
    "gradient of vmap": lambda f: grad(lambda *batch: vmap(f)(*batch).sum()),
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hessian": hessian,
    "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    "vmap of jvp": lambda f: vmap(lambda *tensors: jvp(f, tensors, tensors)[1]),
}


@both_numbers_of_inputs
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_transforms_see_the_definition(name: str, present: int) -> None:
    def scalar(op: Any) -> Function:
        def run(*tensors: Tensor) -> Tensor:
            product, squares = op(*complete(tensors))
            return product.sum() * squares.sum()

        return run

    tensors = arguments(present, *([4] if "vmap" in name else []))
    transform = TRANSFORMS[name]
    result, expected = transform(scalar(OP))(*tensors), transform(scalar(definition))(*tensors)
    torch.testing.assert_close(result, expected, rtol=1e-14, atol=1e-15)


def test_an_undefined_gradient_stays_undefined() -> None:
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return None

    leaves = [tensor.requires_grad_() for tensor in arguments(3)]
    stopped = Stop.apply(OP(*leaves)[0])
    CALLS.clear()
    assert all(part is None for part in torch.autograd.grad(stopped.sum(), leaves, allow_unused=True))
    assert CALLS == []
