"""The check in front of every benchmark lets right results through and notices wrong ones."""

import pytest
import torch

from benchmarks import cells, mamba2_cell
from benchmarks.frame import IncorrectError


@pytest.mark.parametrize("name", ["deltanet", "gated-deltanet", "gated-deltaproduct", "attention"])
def test_equal_forms_of_a_cell_pass_and_others_do_not(name: str) -> None:
    forms = cells.cells({"batch": 2, "length": 5, "d_model": 8, "heads": 2, "head_size": 4})[name]
    inputs = torch.randn(2, 5, 8)
    cells.check(forms, inputs)
    layer, _ = list(forms.values())[-1]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.01)
    with pytest.raises(IncorrectError, match="of the largest entry"):
        cells.check(forms, inputs)


def test_another_weight_than_that_of_transformers() -> None:
    cell, mixer, inputs = mamba2_cell.contenders(1, 5, d_model=8, expand=2, d_state=4, head_size=4)
    mamba2_cell.check(cell, mixer, inputs)
    with torch.no_grad():
        cell.D.add_(0.1)
    with pytest.raises(IncorrectError, match="outputs differs from that of transformers"):
        mamba2_cell.check(cell, mixer, inputs)
