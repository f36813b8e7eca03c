"""The gated norm with its skip connection, against the composition of PyTorch's ops."""

import pytest
import torch
from torch import Tensor

from implicit.ops.gated_norm import gated_norm
from tests.implicit.ops.conftest import with_gradients
from tests.implicit.ops.gated_norm.test_triton_kernels import EPSILON, Case, arguments, by_pytorch


# float64 rounding; float32 against float64, inputs rounded to 6e-8 and a norm of at least 0.1.
@pytest.mark.parametrize(
    ("groups", "dtype", "tolerance"),
    [
        (1, torch.float64, 1e-13),
        (2, torch.float64, 1e-13),
        (2, torch.float32, 3e-6),
        (4, torch.float32, 3e-6),
    ],
    ids=str,
)
def test_equals_the_composition(groups: int, dtype: torch.dtype, tolerance: float) -> None:
    exact, inputs = (arguments(Case(5, batch=2), one) for one in (torch.float64, dtype))
    leaves = [[part.requires_grad_() for part in one] for one in (inputs, exact)]
    y, x, D, gate, weight = leaves[0]
    results = with_gradients(gated_norm(y, x, D, gate, weight, groups, EPSILON), leaves[0])
    expected = with_gradients(by_pytorch(leaves[1], groups), leaves[1])
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype == dtype
        assert ours.shape == theirs.shape
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance * scale)


def test_first_and_second_derivatives_by_finite_differences() -> None:
    inputs = [part.requires_grad_() for part in arguments(Case(2), torch.float64)]

    def run(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
        return gated_norm(y, x, D, gate, weight, 2, EPSILON)

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("scale", [3e-3, 1.0, 1e3])
def test_float16_is_float32_rounded(scale: float) -> None:
    """Before: squares overflowed from 256 on, and the cube of the factor of small features."""
    y, x, D, gate, weight = arguments(Case(5, batch=2), torch.float16)
    wide = [part.detach().float().requires_grad_() for part in (y * scale, x * scale, D, gate, weight)]
    half = [part.detach().half().requires_grad_() for part in wide]
    expected, result = (
        gated_norm(y, x, D, gate, weight, 2, EPSILON) for y, x, D, gate, weight in (wide, half)
    )
    assert result.dtype == torch.float16
    pairs = zip(
        (result, *torch.autograd.grad(result.sum(), half)),
        (expected, *torch.autograd.grad(expected.sum(), wide)),
        strict=True,
    )
    for ours, theirs in pairs:  # half a unit in the last place, and the inputs are the same but for rounding
        size = float(theirs.detach().abs().max())
        torch.testing.assert_close(ours.float(), theirs, rtol=0.0, atol=2e-3 * size)
