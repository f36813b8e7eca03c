"""The benchmark of cells: its gate lets equal forms through and no others."""

import pytest
import torch

from benchmarks import cells
from benchmarks.frame import IncorrectError

SIZES = {"batch": 2, "length": 5, "d_model": 8, "heads": 2, "head_size": 4}


@pytest.mark.parametrize("name", ["deltanet", "gated-deltanet", "gated-deltaproduct", "attention"])
def test_equal_forms_pass_and_others_do_not(name: str) -> None:
    forms = cells.cells(SIZES)[name]
    inputs = torch.randn(2, 5, 8)
    cells.check(forms, inputs)
    layer, _ = list(forms.values())[-1]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.01)
    with pytest.raises(IncorrectError, match="of the largest entry"):
        cells.check(forms, inputs)
