"""The written-out derivatives of a Mamba-2 cell and of a norm against automatic ones."""

from typing import Any

import pytest
import torch
from torch import Tensor

from implicit.cells import Mamba2Cell, RMSNorm
from implicit.cells.mamba2_derivative import output_with_derivative
from theory.transition import State

TOKENS = 5
SIZES: dict[str, dict[str, Any]] = {
    "one-group": {"d_model": 8, "d_state": 5, "d_conv": 4, "expand": 2, "head_size": 4, "groups": 1},
    "two-groups": {"d_model": 8, "d_state": 3, "d_conv": 3, "expand": 2, "head_size": 4, "groups": 2},
    "a-group-a-head": {"d_model": 6, "d_state": 1, "d_conv": 2, "expand": 1, "head_size": 2, "groups": 3},
    "no-convolution": {"d_model": 4, "d_state": 8, "d_conv": 1, "expand": 3, "head_size": 12, "groups": 1},
}


def perturb(module: torch.nn.Module) -> None:
    """Make all parameters random: the initial ones of D, norms and biases would hide an error."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def random_state(cell: Mamba2Cell) -> State:
    return {
        name: torch.randn(TOKENS, *part.shape[1:], dtype=torch.float64)
        for name, part in cell.init_state(1).items()
    }


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_output_and_derivative_are_those_of_the_step(sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    cell = Mamba2Cell(**sizes).double()
    perturb(cell)
    inputs = torch.randn(TOKENS, sizes["d_model"], dtype=torch.float64)
    state, injection = random_state(cell), torch.randn(TOKENS, cell.d_in_proj, dtype=torch.float64)
    output, found = output_with_derivative(cell, inputs, state, injection)
    torch.testing.assert_close(output, cell.step(inputs, state, injection)[0], rtol=1e-12, atol=1e-13)
    expected = torch.func.jacrev(lambda u: cell.step(u, state, injection)[0].sum(0))(inputs)
    # Outputs of a token depend on its own input only, so the sum over tokens keeps every derivative.
    torch.testing.assert_close(found, expected.transpose(0, 1), rtol=1e-11, atol=1e-12)  # float64, order 1


def test_the_norm_pushes_columns_forward() -> None:
    torch.manual_seed(0)
    norm = RMSNorm(7).double()
    perturb(norm)
    x, columns = torch.randn(7, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    expected: Tensor = torch.autograd.functional.jacobian(norm, x) @ columns
    torch.testing.assert_close(norm.push_forward(x, columns), expected, rtol=1e-12, atol=1e-13)
