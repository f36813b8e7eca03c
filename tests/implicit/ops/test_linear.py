"""The linear map: the same numbers as PyTorch's, in every derivative, whichever library multiplies."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from implicit.ops import linear as module
from implicit.ops.linear import linear


@pytest.fixture(autouse=True)
def onednn_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALLEST_PRODUCT", 0)
    monkeypatch.setattr(module, "_mkl_knows_this_processor", lambda: False)


def arguments(*shape: int, out_features: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    weight = torch.randn(out_features, shape[-1], generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()


def derivatives(function: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    y = function(x, weight)
    loss = y.tanh().sum()
    first = torch.autograd.grad(loss, (x, weight), create_graph=True)
    second = torch.autograd.grad(first[0].sin().sum() + first[1].sin().sum(), (x, weight))
    return y, *first, *second


SHAPES = {"more-outputs": ((2, 7, 5), 11), "fewer-outputs": ((13, 9), 3), "a-vector": ((6,), 4)}


@pytest.mark.parametrize(("shape", "out_features"), SHAPES.values(), ids=SHAPES)
def test_values_and_derivatives_are_those_of_float64(shape: tuple[int, ...], out_features: int) -> None:
    x, weight = arguments(*shape, out_features=out_features)
    exact = derivatives(functional.linear, *arguments(*shape, out_features=out_features, dtype=torch.float64))
    for result, expected in zip(derivatives(linear, x, weight), exact, strict=True):
        error = (result.double() - expected).abs().max() / expected.abs().max()
        assert error < 5e-6  # inputs rounded to 6e-8, sums of at most 14 terms, and twice that for the second


def test_onednn_multiplies_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, weight = arguments(4, 5, out_features=3)
    assert type(linear(x, weight).grad_fn).__name__ == "ViewBackward0"
    for name, value in (("SMALLEST_PRODUCT", 61), ("_mkl_knows_this_processor", lambda: True)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert type(linear(x, weight).grad_fn).__name__ != "ViewBackward0"


def test_transforms_of_torch_func() -> None:
    x, weight = (tensor.detach() for tensor in arguments(4, 5, out_features=3))
    jacobian = torch.func.vmap(torch.func.jacrev(linear), in_dims=(0, None))(x, weight)
    torch.testing.assert_close(jacobian, weight.expand(4, 3, 5), rtol=0, atol=0)  # the map is its Jacobian


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_dtypes_are_left_to_pytorch(dtype: torch.dtype) -> None:
    x, weight = arguments(4, 5, out_features=3, dtype=dtype)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


class RightFactors(TorchDispatchMode):
    """Records if each right factor that oneDNN is given lies in memory without gaps, in either order."""

    def __init__(self) -> None:
        super().__init__()
        self.dense: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.mkldnn._linear_pointwise.default:
            self.dense.append(args[1].is_contiguous() or args[1].mT.is_contiguous())
        return func(*args, **(kwargs or {}))


def test_onednn_is_spared_factors_with_gaps() -> None:
    x, weight = arguments(6, 20, out_features=9)  # with gaps, oneDNN takes a thousand times as long
    with RightFactors() as seen:
        product = linear(x[:, 3:13], weight[:, 5:15])
        gradients = torch.autograd.grad(product.sum(), (x, weight))  # the gradient of a sum is expanded
    assert seen.dense == [True] * 3
    expected = torch.autograd.grad(functional.linear(x[:, 3:13], weight[:, 5:15]).sum(), (x, weight))
    torch.testing.assert_close(gradients, expected, rtol=1e-5, atol=1e-5)  # float32 rounding
