"""Fixtures and comparisons of the tests of kernels."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from inspect import getmembers
from typing import Any

import pytest
import torch
from torch import Tensor

Op = Callable[[list[Tensor]], Tensor]


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="session", autouse=True)
def _triton_lists_its_builtins_once() -> Iterator[None]:
    """The interpreter lists them at every call within a kernel, which is a third of its time."""
    if DEVICE == "cuda" or find_spec("triton") is None:
        yield
        return
    from triton import language
    from triton.runtime import interpreter

    def builtins_of(package: Any) -> list[str]:
        return [name for name, member in getmembers(package) if language.core.is_builtin(member)]

    plain: Any = interpreter._patch_builtin
    parts: tuple[Any, ...] = (language, language.core, language.tensor, language.math)
    names = {id(part): builtins_of(part) for part in parts}

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        if id(package) not in names:
            plain(package, builder, scope)
        elif language.core.is_builtin(getattr(package, names[id(package)][0])):  # else all are patched
            for name in names[id(package)]:
                interpreter._patch_attr(package, name, getattr(package, name), builder, scope)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_builtin", patch_builtin)
        yield


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fill what is allocated without a value with NaN, so that an entry that no kernel writes shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3, device=DEVICE).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def with_gradients(outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs and the gradients of a loss that weighs each of their entries differently."""
    generator = torch.Generator().manual_seed(1)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    drawn = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in outputs]
    weights = [weight.bfloat16().to(part) for weight, part in zip(drawn, outputs, strict=True)]
    return [
        *(part.detach() for part in outputs),
        *torch.autograd.grad(outputs, inputs, weights, materialize_grads=True),
    ]


def assert_kernels_equal(kernels: Op, exact: Op, inputs: list[Tensor], tolerance: float) -> None:
    """Outputs and gradients of kernels against those of PyTorch in float64, relative to the largest entry.

    Also of a sum, whose gradient has no memory of its own: its strides are zero.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    doubles = [tensor.detach().cpu().double().requires_grad_() for tensor in inputs]
    results, expected = with_gradients(kernels(leaves), leaves), with_gradients(exact(doubles), doubles)
    results += torch.autograd.grad(kernels(leaves).sum(), leaves)
    expected += torch.autograd.grad(exact(doubles).sum(), doubles)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.shape == reference.shape
        error = (result.cpu().double() - reference).abs().max() / reference.abs().max()
        assert error <= tolerance, f"result {number}: {error:.1e}"
