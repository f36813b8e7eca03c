"""The short convolution against the one of PyTorch, in every dtype and derivative."""

import pytest
import torch

from implicit.ops.short_convolution import short_convolution
from tests.implicit.ops.conftest import with_gradients
from tests.implicit.ops.short_convolution.test_triton_kernels import Case, arguments, by_pytorch


# float64 rounding of sums of 27 terms; float32 against float64, inputs rounded to 6e-8.
@pytest.mark.parametrize(
    ("case", "dtype", "tolerance"),
    [
        (Case(1, width=1, batch=3), torch.float32, 1e-6),
        (Case(9, width=2, batch=3), torch.float64, 1e-13),
        (Case(1, width=4, batch=3), torch.float64, 1e-13),
        (Case(9, width=4, batch=3), torch.float32, 1e-6),
    ],
    ids=str,
)
def test_equals_the_convolution_of_pytorch(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    leaves = [[part.requires_grad_() for part in arguments(case, one)] for one in (dtype, torch.float64)]
    padded, weight, bias = leaves[0]
    result = short_convolution(padded, weight, bias)
    assert result.is_contiguous()
    expected = with_gradients(by_pytorch(leaves[1]), leaves[1])
    for ours, theirs in zip(with_gradients(result, leaves[0]), expected, strict=True):
        assert ours.dtype == dtype
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance * scale)


def test_first_and_second_derivatives_by_finite_differences() -> None:
    inputs = [part.requires_grad_() for part in arguments(Case(4, 3, channels=2, batch=2), torch.float64)]
    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(short_convolution, inputs)
    assert torch.autograd.gradgradcheck(short_convolution, inputs)


def test_tokens_do_not_see_later_ones() -> None:
    padded, weight, bias = arguments(Case(9))
    before = short_convolution(padded, weight, bias)
    changed = padded.clone()
    changed[:, 3 + 5] = 7.0
    after = short_convolution(changed, weight, bias)
    assert torch.equal(after[:, :5], before[:, :5])
    assert (after[:, 5:9] != before[:, 5:9]).all()
