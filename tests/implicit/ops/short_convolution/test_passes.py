"""The short convolution against the one of PyTorch, in every dtype and derivative."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.short_convolution import short_convolution

Arguments = tuple[Tensor, Tensor, Tensor]


def arguments(
    width: int, length: int = 9, dtype: torch.dtype = torch.float64, batch: int = 3, channels: int = 5
) -> Arguments:
    """Draw arguments; the tokens are a slice of a wider tensor, as in the cell."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    wide = normal(batch, width - 1 + length, channels + 2)
    return (
        wide[..., 1:-1].requires_grad_(),
        normal(channels, width).requires_grad_(),
        normal(channels).requires_grad_(),
    )


def by_pytorch(padded: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.silu(functional.conv1d(padded.mT, weight[:, None], bias, groups=len(weight))).mT


def gradients(y: Tensor, arguments: Arguments) -> tuple[Tensor, ...]:
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad((y * weights.to(y.dtype)).sum(), arguments)


# float64 rounding of sums of 27 terms; float32 against float64, inputs rounded to 6e-8.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 9])
def test_equals_the_convolution_of_pytorch(
    width: int, length: int, dtype: torch.dtype, tolerance: float
) -> None:
    exact = arguments(width, length)
    expected = by_pytorch(*exact)
    inputs = arguments(width, length, dtype)
    result = short_convolution(*inputs)
    assert result.is_contiguous()
    for ours, theirs in zip(
        (result, *gradients(result, inputs)), (expected, *gradients(expected, exact)), strict=True
    ):
        assert ours.dtype == dtype
        torch.testing.assert_close(
            ours.double(), theirs, rtol=tolerance, atol=tolerance * theirs.abs().max().item()
        )


def test_first_and_second_derivatives_by_finite_differences() -> None:
    inputs = arguments(3, length=4, batch=2, channels=2)
    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(short_convolution, inputs)
    assert torch.autograd.gradgradcheck(short_convolution, inputs)


def test_tokens_do_not_see_later_ones() -> None:
    padded, weight, bias = (part.detach() for part in arguments(4))
    before = short_convolution(padded, weight, bias)
    changed = padded.clone()
    changed[:, 3 + 5] = 7.0
    after = short_convolution(changed, weight, bias)
    assert torch.equal(after[:, :5], before[:, :5])
    assert (after[:, 5:9] != before[:, 5:9]).all()
