"""The gated norm with its skip connection, against the composition of PyTorch's ops."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.gated_norm import gated_norm

EPSILON = 1e-5


def arguments(dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """y, x, D, gate and weight: 10 rows of 4 heads of 3; x and the gate are slices, as in the cell."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    wide = normal(2, 5, 30)
    parts = normal(2, 5, 4, 3), wide[..., :12].unflatten(-1, (4, 3)), normal(4), wide[..., 12:24], normal(12)
    return tuple(part.requires_grad_() for part in parts)


def by_pytorch(inputs: tuple[Tensor, ...], groups: int) -> Tensor:
    y, x, D, gate, weight = inputs
    gated = torch.addcmul(y, D[:, None], x).flatten(-2) * functional.silu(gate)
    parts = gated.chunk(groups, dim=-1)
    return torch.cat([functional.rms_norm(part, part.shape[-1:], eps=EPSILON) for part in parts], -1) * weight


def gradients(y: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad((y * weights.to(y.dtype)).sum(), inputs)


# float64 rounding; float32 against float64, inputs rounded to 6e-8 and a norm of at least 0.1.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 3e-6)], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_equals_the_composition(groups: int, dtype: torch.dtype, tolerance: float) -> None:
    exact = arguments()
    expected = by_pytorch(exact, groups)
    inputs = arguments(dtype)
    y, x, D, gate, weight = inputs
    result = gated_norm(y, x, D, gate, weight, groups, EPSILON)
    for ours, theirs in zip(
        (result, *gradients(result, inputs)), (expected, *gradients(expected, exact)), strict=True
    ):
        assert ours.dtype == dtype
        assert ours.shape == theirs.shape
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance * scale)


def test_first_and_second_derivatives_by_finite_differences() -> None:
    y, x, D, gate, weight = arguments()
    inputs = [part.detach().requires_grad_() for part in (y[0, :2], x[0, :2], D, gate[0, :2], weight)]

    def run(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
        return gated_norm(y, x, D, gate, weight, 2, EPSILON)

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)
