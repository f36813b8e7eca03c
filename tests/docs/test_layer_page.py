"""docs/use_a_layer.md: its example is the file, learns, and its other code runs."""

import re
from importlib import import_module

import pytest
import torch

from tests.docs.page import EXAMPLES, page, quoted

PAGE = page("use_a_layer.md")


@pytest.mark.filterwarnings("ignore:outputs without a fixed point:implicit.NotConvergedWarning")
def test_the_network_of_the_page_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quoted("layer_network.py") in PAGE
    monkeypatch.syspath_prepend(str(EXAMPLES))
    network = import_module("layer_network").train(steps=120)
    bits = torch.randint(2, (64, 2), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(network(bits).argmax(-1), bits.cumsum(1) % 2)


def test_the_function_of_the_page_is_solved_and_differentiated() -> None:
    (_, code) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, torch.nn.Linear] = {}
    exec(code, names)
    assert names["mix"].weight.grad is not None
