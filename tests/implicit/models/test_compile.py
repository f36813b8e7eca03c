"""`torch.compile(model)` gives the answers of the model: what cannot be compiled runs as it is."""

import pytest
import torch
from torch import Tensor

from automata import make_task
from implicit import build_model, load_run
from tests.implicit.models.contract_cases import build_case

# Dynamo itself reads the gradient of what is no leaf where it breaks its graph.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

TOKENS = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1]])


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def test_a_compiled_implicit_model_answers_and_learns_as_the_model() -> None:
    model = load_run("parity-small").model
    compiled = torch.compile(model, backend="eager")
    plain, answer = model(TOKENS), compiled(TOKENS)
    assert torch.equal(plain, answer)
    weight = model.get_parameter("head.weight")
    gradients = [torch.autograd.grad(logits.square().sum(), weight)[0] for logits in (plain, answer)]
    assert torch.equal(*gradients)


def test_a_compiled_explicit_model_and_a_function_around_an_implicit_one() -> None:
    implicit, explicit = (
        load_run("parity-small").model,
        build_model("gru", {"d_model": 4}, make_task("parity")),
    )

    def chances(tokens: Tensor) -> Tensor:
        return implicit.run(tokens).logits.softmax(-1)

    for function in (chances, explicit.eval()):
        assert torch.equal(torch.compile(function, backend="eager")(TOKENS), function(TOKENS))


@pytest.mark.parametrize("name", ["mamba2", "mamba3"])
def test_kernels_run_as_they_are_within_a_compiled_model(name: str) -> None:
    model = build_case(name)
    compiled = torch.compile(model, backend="eager")
    plain, answer = model(TOKENS), compiled(TOKENS)
    assert torch.equal(plain, answer)
    weights = list(model.parameters())
    gradients = [torch.autograd.grad(logits.square().sum(), weights) for logits in (plain, answer)]
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
