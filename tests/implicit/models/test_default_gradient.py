"""The default gradient of every implicit model, and of a user's twin, by finite differences in float64."""

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from implicit import Phantom, Solve
from implicit.models import MODELS
from implicit.models.interface import SequenceModel
from tests.docs.page import EXAMPLES
from tests.implicit.models.contract_cases import TIGHT, build_case

IMPLICIT = [name for name in MODELS if name.startswith("implicit-")]
TOKENS = torch.tensor([[1, 0, 1, 2], [0, 2, 2, 1]])


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=[*IMPLICIT, "a user's twin"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SequenceModel:
    torch.manual_seed(0)
    if request.param in MODELS:
        return build_case(request.param)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    twin = import_module("leaky_cell").ImplicitLeaky
    sys.modules.pop("leaky_cell")
    config = twin.config_class(vocabulary_size=3, output_size=3, d_model=6, d_inner=5, rtol=TIGHT)
    built: SequenceModel = twin(config)
    with torch.no_grad():
        built.get_parameter("mixers.0.in_proj.weight").mul_(0.02)
        built.get_parameter("mixers.0.out_proj.weight").mul_(100)
    return built


def test_the_default_gradient_is_exact(model: SequenceModel) -> None:
    names, weights = zip(*model.named_parameters(), strict=True)
    with torch.no_grad():
        solution = model.run(TOKENS).solution
    assert solution is not None
    assert solution.share_converged == 1

    def logits(*parameters: Tensor) -> Tensor:
        return functional_call(model, dict(zip(names, parameters, strict=True)), (TOKENS,))

    # Central differences of 1e-6 of solutions exact to 1e-13, within gradcheck's own tolerances, in random
    # directions of parameters and logits.
    leaves = [weight.detach().clone().requires_grad_() for weight in weights]
    assert torch.autograd.gradcheck(logits, leaves, fast_mode=True)
    found, biased = (
        torch.cat([part.flatten() for part in torch.autograd.grad(output.square().sum(), weights)])
        for output in (model(TOKENS), model.run(TOKENS, solve=Solve(gradient=Phantom(1))).logits)
    )
    assert (found - biased).norm() > 0.01 * found.norm()  # or little would be tested
