"""`torch.compile(model)` gives the answers of the model: what cannot be compiled runs as it is."""

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit import load_run
from implicit.models.interface import SequenceModel
from tests.implicit.models.conftest import build_case

# Dynamo itself reads the gradient of what is no leaf where it breaks its graph.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

TOKENS = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1]])


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def same(plain: Tensor, answer: Tensor, model: SequenceModel) -> None:
    assert torch.equal(plain, answer)
    gradients = [torch.autograd.grad(y.square().sum(), list(model.parameters())) for y in (plain, answer)]
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize("name", ["parity-small", "gru"])
def test_a_compiled_model_answers_and_learns_as_the_model(name: str) -> None:
    model = load_run(name).model if name == "parity-small" else build_case(name)
    same(model(TOKENS), torch.compile(model, backend="eager")(TOKENS), model)


def test_a_compiled_function_around_an_implicit_model() -> None:
    model = load_run("parity-small").model

    def chances(tokens: Tensor) -> Tensor:
        return model.run(tokens).logits.softmax(-1)

    same(chances(TOKENS), torch.compile(chances, backend="eager")(TOKENS), model)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_an_explicit_model_is_exported_and_traced_and_an_implicit_one_refused() -> None:
    model, implicit = build_case("mamba2").eval(), load_run("parity-small").model
    for graph in (torch.export.export(model, (TOKENS,)).module(), torch.jit.trace(model, TOKENS)):
        torch.testing.assert_close(graph(1 - TOKENS), model(1 - TOKENS))
    with pytest.raises(InputError, match="export or trace an explicit model"):
        torch.export.export(implicit, (TOKENS,))
    with pytest.raises(InputError, match="export or trace an explicit model"):
        torch.jit.trace(implicit, TOKENS)
