"""The written-out derivatives of cells and of a norm against automatic ones."""

from typing import Any

import pytest
import torch
from torch import Tensor

from implicit.cells import Cell, DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell, Mamba2Cell, RMSNorm

TOKENS = 5
DELTA: dict[str, Any] = {"d_model": 7, "heads": 3, "key_size": 4, "value_size": 2}
CELLS: dict[str, tuple[type[Cell], dict[str, Any]]] = {
    "deltanet": (DeltaNetCell, DELTA),
    "reflecting": (DeltaNetCell, {**DELTA, "negative_eigenvalues": True, "key_size": 1}),
    "no-convolution": (DeltaNetCell, {**DELTA, "d_conv": 1}),
    "three-writes": (DeltaNetCell, {**DELTA, "householder_steps": 3, "negative_eigenvalues": True}),
    "gated": (GatedDeltaNetCell, {**DELTA, "value_size": 5}),
    "gated-product": (GatedDeltaProductCell, {**DELTA, "negative_eigenvalues": True}),
    "gated-product-of-four": (GatedDeltaProductCell, {**DELTA, "householder_steps": 4, "heads": 1}),
    "mamba2": (Mamba2Cell, {"d_model": 8, "d_state": 5, "head_size": 4}),
    "two-groups": (Mamba2Cell, {"d_model": 8, "d_state": 3, "d_conv": 3, "head_size": 4, "groups": 2}),
    "a-group-a-head": (
        Mamba2Cell,
        {"d_model": 6, "d_state": 1, "d_conv": 2, "expand": 1, "head_size": 2, "groups": 3},
    ),
    "mamba2-no-convolution": (
        Mamba2Cell,
        {"d_model": 4, "d_state": 8, "d_conv": 1, "expand": 3, "head_size": 12},
    ),
}


def perturb(module: torch.nn.Module) -> None:
    """Make all parameters random: the initial ones of D, norms and biases would hide an error."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


@pytest.mark.parametrize(("kind", "sizes"), CELLS.values(), ids=CELLS)
def test_output_and_derivative_are_those_of_the_step(kind: type[Cell], sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    cell = kind(**sizes).double()
    perturb(cell)
    inputs = torch.randn(TOKENS, sizes["d_model"], dtype=torch.float64)
    injection = torch.randn(TOKENS, cell.injection_size, dtype=torch.float64)
    state = {
        name: torch.randn(TOKENS, *part.shape[1:], dtype=torch.float64)
        for name, part in cell.init_state(1).items()
    }
    pair = cell.output_with_derivative(inputs, state, injection)
    assert pair is not None
    torch.testing.assert_close(pair[0], cell.step(inputs, state, injection)[0], rtol=1e-12, atol=1e-13)
    # Outputs of a token depend on its own input only, so the sum over tokens keeps every derivative.
    expected = torch.func.jacrev(lambda u: cell.step(u, state, injection)[0].sum(0))(inputs)
    torch.testing.assert_close(pair[1], expected.transpose(0, 1), rtol=1e-11, atol=1e-12)  # float64, order 1


def test_the_norm_pushes_columns_forward() -> None:
    torch.manual_seed(0)
    norm = RMSNorm(7).double()
    perturb(norm)
    x, columns = torch.randn(7, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    expected: Tensor = torch.autograd.functional.jacobian(norm, x) @ columns
    torch.testing.assert_close(norm.push_forward(x, columns), expected, rtol=1e-12, atol=1e-13)
