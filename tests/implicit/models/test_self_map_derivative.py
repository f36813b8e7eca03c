"""The derivative of a model's self-map, put together of its cells', against automatic ones."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from automata.tasks.registry import make_task
from implicit.cells import DeltaNetCell
from implicit.cells.delta_rule import Projections
from implicit.models.implicit_model import ImplicitModel, implicit_model
from implicit.models.registry import build_model
from implicit.modes.adjoint import solve_adjoint

TOKENS = 5
MODELS: dict[str, dict[str, Any]] = {
    "implicit-mamba2": {"d_model": 6, "head_size": 4, "d_state": 3},
    "implicit-deltanet": {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4},
    "implicit-gated-deltaproduct": {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4},
    "implicit-gated-deltanet": {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4, "mlp_size": 5},
}


def three_layers(name: str, residual: bool) -> ImplicitModel:
    torch.manual_seed(0)
    model = build_model(name, {**MODELS[name], "layers": 3, "residual": residual}, make_task("S3")).double()
    assert isinstance(model, ImplicitModel)
    with torch.no_grad():
        for parameter in model.parameters():  # those of norms, at their initial values, would hide an error
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_adjoint_system_is_the_one_of_automatic_differentiation(name: str, residual: bool) -> None:
    model = three_layers(name, residual)
    recurrence = model._recurrence(torch.randint(2, (2, TOKENS)), model.init_state(2))
    latent, gradient = torch.randn(2, 2, TOKENS, 6, dtype=torch.float64)
    assert recurrence.derivative is not None
    found = solve_adjoint(recurrence, latent, gradient)
    by_rows = solve_adjoint(replace(recurrence, derivative=None), latent, gradient)
    # In float64; the blocks I − ∂zΦ at random latents have condition numbers of up to some 1e3.
    torch.testing.assert_close(found, by_rows, rtol=1e-9, atol=1e-10)


def test_the_adjoint_does_not_depend_on_how_many_tokens_are_taken_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = three_layers("implicit-gated-deltanet", residual=True)
    recurrence = model._recurrence(torch.randint(2, (2, TOKENS)), model.init_state(2))
    latent, gradient = torch.randn(2, 2, TOKENS, 6, dtype=torch.float64)
    together = solve_adjoint(recurrence, latent, gradient)
    for tokens in (1, 3):  # of 10; three leave a rest
        monkeypatch.setattr("implicit.modes.adjoint.CACHED_ENTRIES", tokens * 6**2)
        found = solve_adjoint(recurrence, latent, gradient)
        torch.testing.assert_close(found, together, rtol=1e-9, atol=1e-10)  # as above


class _Doubled(DeltaNetCell):
    """A DeltaNet of twice the inputs, whose inherited derivative would be half of its own."""

    def project(self, inputs: Tensor, injection: Tensor | None) -> Projections:
        return super().project(2 * inputs, injection)


def test_an_inherited_derivative_is_not_trusted_where_a_method_was_overridden() -> None:
    torch.manual_seed(0)
    kind = implicit_model("doubled", _Doubled, "twice the inputs")
    sizes: Any = kind.config_class
    model = kind(sizes(vocabulary_size=2, output_size=2, d_model=6, heads=2)).double()
    recurrence = model._recurrence(torch.randint(2, (2, TOKENS)), model.init_state(2))
    assert recurrence.derivative is None
    latent, gradient = torch.randn(2, 2, TOKENS, 6, dtype=torch.float64)
    sweep = recurrence.sweep
    jacobian = torch.func.jacrev(lambda z: sweep(z, recurrence.inputs, recurrence.state)[0])(latent)
    dense = jacobian.flatten(3).flatten(0, 2)
    expected = torch.linalg.solve((torch.eye(len(dense), dtype=torch.float64) - dense).T, gradient.flatten())
    found = solve_adjoint(recurrence, latent, gradient).flatten()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)  # float64, as above
