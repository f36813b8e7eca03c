"""The written-out derivative of DeltaNet's relatives against automatic differentiation."""

from typing import Any

import pytest
import torch

from implicit.cells import DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell
from implicit.cells.delta_rule_cell import DeltaRuleCell
from implicit.cells.delta_rule_derivative import output_with_derivative

TOKENS = 5
SMALL: dict[str, Any] = {"d_model": 7, "heads": 3, "key_size": 4, "value_size": 2}
CELLS: dict[str, tuple[type[DeltaRuleCell], dict[str, Any]]] = {
    "deltanet": (DeltaNetCell, {}),
    "reflecting": (DeltaNetCell, {"negative_eigenvalues": True, "key_size": 1}),
    "no-convolution": (DeltaNetCell, {"d_conv": 1}),
    "three-writes": (DeltaNetCell, {"householder_steps": 3, "negative_eigenvalues": True}),
    "gated": (GatedDeltaNetCell, {"value_size": 5}),
    "gated-product": (GatedDeltaProductCell, {"negative_eigenvalues": True}),
    "gated-product-of-four": (GatedDeltaProductCell, {"householder_steps": 4, "heads": 1}),
}


@pytest.mark.parametrize(("kind", "options"), CELLS.values(), ids=CELLS)
def test_output_and_derivative_are_those_of_the_step(
    kind: type[DeltaRuleCell], options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    cell = kind(**{**SMALL, **options}).double()
    with torch.no_grad():
        for parameter in cell.parameters():  # those of norms, at their initial values, would hide an error
            parameter.add_(0.3 * torch.randn_like(parameter))
    inputs = torch.randn(TOKENS, SMALL["d_model"], dtype=torch.float64)
    state = {
        name: torch.randn(TOKENS, *part.shape[1:], dtype=torch.float64)
        for name, part in cell.init_state(1).items()
    }
    injection = torch.randn(TOKENS, cell.injection_size, dtype=torch.float64)
    output, found = output_with_derivative(cell, inputs, state, injection)
    torch.testing.assert_close(output, cell.step(inputs, state, injection)[0], rtol=1e-12, atol=1e-13)
    # Outputs of a token depend on its own input only, so the sum over tokens keeps every derivative.
    expected = torch.func.jacrev(lambda u: cell.step(u, state, injection)[0].sum(0))(inputs)
    torch.testing.assert_close(found, expected.transpose(0, 1), rtol=1e-11, atol=1e-12)  # float64, order 1
