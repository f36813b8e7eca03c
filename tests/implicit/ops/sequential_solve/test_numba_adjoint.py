"""The adjoint system by the kernel against LU factors of every token's derivative, and training by it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from implicit.cells import Mamba2Cell
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.modes.adjoint import solve_adjoint
from implicit.modes.fused import fused_adjoint
from tests.implicit.ops.sequential_solve.test_kernels import SIZES, by
from tests.small_models import quick_mamba2 as random_model
from tests.small_models import random_state
from tests.small_models import random_tokens as tokens_of

pytest.importorskip("numba")
from implicit.ops.sequential_solve.numba_kernels import launch
from implicit.ops.sequential_solve.numba_kernels.trail import Trail


def both(
    model: ImplicitModel, tokens: Tensor, g: Tensor, lengths: Tensor | None = None
) -> tuple[Any, Tensor]:
    """The kernel's solution and that of the factors, at the fixed points from a random state."""
    state = random_state(model, len(tokens))
    latents = by("loop", model, tokens, state, lengths=lengths, stopping=Stopping(rtol=1e-3)).solution.latents
    model.sequential_backend = "auto"
    with torch.no_grad():
        recurrence = model._recurrence(*model.begin(tokens, state, lengths))
        found = fused_adjoint(model._fused_self_map, model._form, (), recurrence)(latents, g)
        return found, solve_adjoint(recurrence, latents, g)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_it_equals_the_factors_in_float64(sizes: dict[str, Any]) -> None:
    """More sequences than places, an odd number of tokens; the derivative is taken wherever one stands."""
    model = random_model(**sizes)
    g = torch.randn(9, 5, model.config.d_model, generator=torch.Generator().manual_seed(5)).double()
    found, expected = both(model, tokens_of(9, 5), g)
    assert (found.value - expected).norm() <= 1e-10 * expected.norm()
    assert (found.residual <= 1e-12 * found.value.norm(dim=-1)).all()


def test_padding_keeps_its_gradient_and_passes_on_what_comes_behind() -> None:
    model, lengths = random_model(), torch.tensor([6, 1, 4])
    g = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(5)).double()
    found, expected = both(model, tokens_of(3, 6), g, lengths)
    assert (found.value - expected).norm() <= 1e-10 * expected.norm()
    assert torch.equal(found.value[1, 1:], g[1, 1:])


def test_no_convergence_of_the_iteration_is_needed() -> None:
    """Φ that expands everywhere: the norms are there, the residual branch is scaled up."""
    model = random_model(residual=True)
    with torch.no_grad():
        cell = model.cells[0]
        assert isinstance(cell, Mamba2Cell)
        cell.out_proj.weight.mul_(6)
        cell.in_proj.weight.mul_(8)
    g = torch.ones(2, 3, 8).double()
    found, expected = both(model, tokens_of(2, 3), g)
    assert found is not None
    assert (found.value - expected).norm() <= 1e-8 * expected.norm()


def test_what_is_not_finite_is_left_to_the_factors_and_nothing_else() -> None:
    """The gradient of one sequence of three is not a number: the others are the kernel's, to the last bit."""
    model = random_model()
    g = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(5)).double()
    whole, _ = both(model, tokens_of(3, 4), g)
    spoilt = g.clone()
    spoilt[1, 1, 0] = torch.nan
    found, expected = both(model, tokens_of(3, 4), spoilt)
    assert found.residual is None  # measured by a product then
    assert torch.equal(found.value[[0, 2]], whole.value[[0, 2]])
    torch.testing.assert_close(found.value[1, 2:], expected[1, 2:])
    assert bool(found.value[1, :2].isnan().any())


def test_a_token_that_is_nearly_singular_is_left_to_the_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is exact enough: all sequences are solved by factors."""
    monkeypatch.setattr(launch, "TOLERANCES", {torch.float64: 0.0})
    g = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(5)).double()
    found, expected = both(random_model(), tokens_of(2, 3), g)
    assert found.residual is None
    torch.testing.assert_close(found.value, expected)


def test_a_place_that_is_through_reads_nothing_before_the_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequence 0 is through after one token and idles: the row before its first one is not a number here."""
    original, worked_in = launch._memory, []

    def behind(array: np.ndarray) -> np.ndarray:
        larger = np.full((2 * len(array), *array.shape[1:]), np.nan, array.dtype)
        larger[len(array) :] = array
        return larger[len(array) :]

    def memory(*arguments: Any) -> Any:
        trail, slopes, pulled, *rest = original(*arguments)
        worked_in.append(pulled)
        return Trail(*(behind(part) for part in trail)), slopes, pulled, *rest

    monkeypatch.setattr(launch, "_memory", memory)
    model, lengths = random_model(layers=2), torch.tensor([1, 6, 1])
    g = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(5)).double()
    found, expected = both(model, tokens_of(3, 6), g, lengths)
    assert (found.value - expected).norm() <= 1e-10 * expected.norm()
    assert all(np.isfinite(part).all() for pulled in worked_in for part in pulled)
