"""Models in half precision: linear systems are solved in float32, which PyTorch has them for."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from implicit import Anderson, FactoredImplicit, Solve, train
from implicit.models.interface import SequenceModel
from tests.implicit.models.conftest import build_case
from tests.small_models import small_config

# half precision does not resolve the tolerances
pytestmark = pytest.mark.filterwarnings(
    "ignore:rtol is", "ignore:the implicit gradient is not exact", "ignore:residuals stall"
)
TOKENS = torch.tensor([[1, 0, 1, 2], [0, 2, 2, 1]])
SOLVES = {
    "adjoint": Solve("sequential", gradient=FactoredImplicit()),
    "Anderson": Solve("simultaneous", solver=Anderson()),
}


def gradient(model: SequenceModel, solve: Solve) -> Tensor:
    logits = model.run(TOKENS, solve=solve).logits
    found = torch.autograd.grad(logits.float().square().sum(), list(model.parameters()))
    return torch.cat([part.flatten().float() for part in found])


@pytest.mark.parametrize("solve", SOLVES.values(), ids=SOLVES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_gradient_is_that_of_single_precision(dtype: torch.dtype, solve: Solve) -> None:
    torch.manual_seed(0)
    half = build_case("implicit-mamba2").to(dtype)
    found, expected = gradient(half, solve), gradient(copy.deepcopy(half).float(), solve)
    # some ten roundings of half a unit in the last place, 0.4% in bfloat16, in a row
    assert (found - expected).norm() < 0.1 * expected.norm()


def test_training_goes_under_bfloat16(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.bfloat16)
    try:
        sizes = {"d_model": 8, "head_size": 4, "d_state": 4}
        config = small_config(model="implicit-mamba2", sizes=sizes, image_ball_weight=0.1)
        run = train(config, tmp_path / "run", progress=False)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(weight.isfinite().all() for weight in run.model.parameters())
