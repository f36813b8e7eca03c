"""docs/extending.md, "Your own cell": both models of it keep the contract, train, load and are analysed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from implicit.runs.loading import load_run
from tests.docs.page import is_quoted

TITLE = "Your own cell, and its implicit twin"


@pytest.fixture
def example(run_page: Callable[[str], None]) -> Any:
    return import_module("leaky_cell")


def test_the_two_forms_of_the_cell_agree(example: Any) -> None:
    """Under an injection; padding leaves the state as it is."""
    generator = torch.Generator().manual_seed(0)
    cell = example.LeakyCell(4, d_inner=3).double()
    inputs = torch.randn(2, 5, 4, generator=generator, dtype=torch.float64)
    injection = torch.randn(2, 5, cell.injection_size, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    outputs, after = cell(inputs, cell.init_state(2), injection, mask)
    for k, length in enumerate([5, 2]):
        state, expected = cell.init_state(1), []
        for t in range(length):
            output, state = cell.step(inputs[k : k + 1, t], state, injection[k : k + 1, t])
            expected.append(output[0])
        assert_agree(outputs[k, :length], torch.stack(expected))
        assert_agree(after["h"][k : k + 1], state["h"])


def assert_agree(found: Tensor, expected: Tensor) -> None:
    """In float64, for the same few operations in the same order; rows of a batch may be summed otherwise."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("ignore:the curriculum ends at length")  # the page trains for few steps
def test_the_commands_of_the_page_run(run_page: Callable[[str], None]) -> None:
    assert is_quoted(TITLE, "leaky_cell.py")
    run_page(TITLE)
    explicit, implicit = (
        load_run("runs/leaky", allow_code=True).model,
        load_run("runs/implicit-leaky", allow_code=True).model,
    )
    assert explicit.implicit is None
    assert implicit.implicit is implicit
    names = {name for name, _ in explicit.named_parameters() if name.startswith("mixers")}
    assert names == {name for name, _ in implicit.named_parameters() if name.startswith("mixers")}
