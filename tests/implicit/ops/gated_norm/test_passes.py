"""The gated norm with its skip connection, against the composition of PyTorch's ops."""

import pytest
import torch
from torch import Tensor

from implicit.ops.gated_norm import gated_norm
from tests.implicit.ops.conftest import with_gradients
from tests.implicit.ops.gated_norm.test_triton_kernels import (
    EPSILON,
    Case,
    arguments,
    by_pytorch,
)


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
