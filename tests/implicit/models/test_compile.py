"""`torch.compile(model)` gives the answers of the model: what cannot be compiled runs as it is."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

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


RECORDERS = {
    "export": lambda model: torch.export.export(model, (TOKENS,)).module(),
    "jit": lambda model: torch.jit.trace(model, TOKENS),
    "make_fx": lambda model: make_fx(model)(TOKENS),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("recorder", RECORDERS)
@pytest.mark.parametrize("name", ["mamba2", "gated-deltanet"])
def test_a_graph_is_recorded_of_an_explicit_model(recorder: str, name: str) -> None:
    model = build_case(name).eval()
    graph = RECORDERS[recorder](model)
    torch.testing.assert_close(graph(1 - TOKENS), model(1 - TOKENS))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("recorder", RECORDERS)
def test_no_graph_is_recorded_of_an_iteration(recorder: str) -> None:
    with pytest.raises(InputError, match="export or trace an explicit model"):
        RECORDERS[recorder](load_run("parity-small").model)


def test_an_explicit_model_runs_on_fake_tensors() -> None:
    with FakeTensorMode():
        assert build_case("gated-deltanet")(torch.zeros(2, 6, dtype=torch.int64)).shape[:2] == (2, 6)
