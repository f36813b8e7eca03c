"""The checker's evaluations against the float64 models, and Φ alone against Φ with derivatives."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_mat, ctx
from torch import Tensor

from analysis.certificates.arb.linear import exact_vector, precision
from analysis.certificates.arb.models import ArbModel, entries_of
from analysis.certificates.claims.theorem1 import EVALUATIONS
from automata.tasks import make_task
from implicit.models.registry import build_model
from tests.analysis.lines import weights_of
from theory import latent_jacobian
from theory.blocks import BlockMap
from theory.forward_mode import directional

SIZES: dict[str, Any] = {"d_model": 6, "head_size": 4, "d_state": 3}
GROUPS: dict[str, Any] = {**SIZES, "d_model": 8, "groups": 2, "d_conv": 2, "residual": False}
DELTA: dict[str, Any] = {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4}
PLACES = {"implicit-mamba2": (7, 5), "implicit-deltanet": (17, 13)}
"""Entries of ∂h'/∂h that are not zero: of DeltaNet's (1, 1, 1) and (1, 0, 1) of [heads, key, value]."""
ONE_LAYER = {"plain": SIZES, "groups": GROUPS, "no window": {**SIZES, "d_conv": 1}}
MAMBA = {
    **ONE_LAYER,
    "layers": {**GROUPS, "layers": 2},
    "three wide layers": {**GROUPS, "d_model": 4, "layers": 3, "expand": 4, "d_state": 5, "residual": True},
}
DELTANETS = {
    "DeltaNet": DELTA,
    "two layers of DeltaNet": {**DELTA, "layers": 2, "residual": False, "d_conv": 2},
    "reflections": {**DELTA, "d_conv": 1, "negative_eigenvalues": True},
}
TOKEN = 2
FLOAT64 = 1e-12
"""128 bits against float64 and its rounding."""


class Case:
    """A model with random weights, its evaluation in balls, a latent and a state."""

    def __init__(self, name: str) -> None:
        self.kind = "implicit-deltanet" if name in DELTANETS else "implicit-mamba2"
        torch.manual_seed(0)
        model: Any = build_model(self.kind, {**MAMBA, **DELTANETS}[name], make_task("S3"))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        self.size, self.layers = model.config.d_model, model.config.layers
        with precision(128):
            self.checked: Any = EVALUATIONS[self.kind](weights_of(model), model.config.model_dump())
        self.zeros = {key: entry[0].double() for key, entry in model.init_state(1).items()}
        self.z, self.vector = self.random(self.size), self.random(sum(map(Tensor.numel, self.zeros.values())))
        self.transition = model.double().transition(TOKEN)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)

    def parts(self, vector: Tensor) -> dict[str, Tensor]:
        """A state from its entries, in the order of the checker."""
        sizes = [self.zeros[key].numel() for key in self.checked.shapes]
        pieces = zip(self.checked.shapes, vector.split(sizes), strict=True)
        return {key: piece.view(self.zeros[key].shape) for key, piece in pieces}

    def balls(self) -> tuple[Any, Any]:
        """The latent and the state for the checker."""
        return exact_vector(self.z.numpy()), self.checked.state(exact_vector(self.vector.numpy()))


def numbers(rows: Any) -> Any:
    return np.array([[float(entry) for entry in row] for row in rows])


@pytest.mark.parametrize("name", [*MAMBA, *DELTANETS])
def test_values_and_derivatives(name: str) -> None:
    case = Case(name)
    row, column = PLACES[case.kind]
    with precision(128):
        z, entries = case.balls()
        values, slopes, found = case.checked.evaluate(TOKEN, z, entries, [column] * case.layers)
        rates, same = (
            [case.checked.entry_rates(found, layer, (place, column), entries) for layer in range(case.layers)]
            for place in (row, column)
        )
    state, size = case.parts(case.vector), case.size
    expected = case.transition.self_map(case.z, state).detach()
    np.testing.assert_allclose(numbers([values])[0], expected, atol=FLOAT64)
    A = latent_jacobian(case.transition, state, case.z)
    np.testing.assert_allclose(numbers(slopes)[:, :size], A, atol=FLOAT64)
    for layer in range(case.layers):
        block = BlockMap(case.transition, state, (f"{case.checked.block}.{layer}",))
        unit = torch.zeros_like(block.vector)
        unit[column] = 1.0
        along = directional(partial(block.self_map, case.z), block.vector, unit[None])[0]
        np.testing.assert_allclose(numbers(slopes)[:, size + layer], along, atol=FLOAT64)
        direct = directional(partial(block.state_update, case.z), block.vector, unit[None])[0]
        assert float(rates[layer][size + layer]) == pytest.approx(direct[row].item(), abs=FLOAT64)
        assert float(same[layer][size + layer]) == pytest.approx(direct[column].item(), abs=FLOAT64)
        through = torch.func.jacrev(lambda z, block=block: block.state_update(z, block.vector)[row])(case.z)
        np.testing.assert_allclose(numbers(rates)[layer, :size], through.detach(), atol=FLOAT64)


@pytest.mark.parametrize("name", ONE_LAYER)
def test_derivatives_along_directions_of_the_state(name: str) -> None:
    case = Case(name)
    directions = case.random(len(case.vector), 2)

    def both(latent: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
        here = case.parts(case.vector + directions @ along)
        after = case.transition.state_update(latent, here)
        return case.transition.self_map(latent, here), torch.cat([after[key].flatten() for key in here])

    at = case.z, torch.zeros(2, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(both, at)
    with precision(128):
        rows = [[arb(float(entry)) for entry in row] for row in directions]
        image, rates, following = case.checked.evaluate_along(TOKEN, *case.balls(), rows)
    np.testing.assert_allclose(numbers([image])[0], both(*at)[0].detach(), atol=FLOAT64)
    for found, jacobians in ((rates, expected[0]), (following, expected[1])):
        np.testing.assert_allclose(numbers(found), torch.cat(jacobians, dim=1), atol=FLOAT64)


@pytest.mark.parametrize("name", MAMBA)
def test_the_next_state_has_the_parts_of_every_layer(name: str) -> None:
    case = Case(name)
    with precision(128):
        z, state = case.balls()
        _, _, found = case.checked.evaluate(TOKEN, z, state, None)
        after = case.checked.following(found, state)
    expected = case.transition.state_update(case.z, case.parts(case.vector))
    assert set(after) == set(expected) == set(case.zeros)
    for key, part in expected.items():
        np.testing.assert_allclose(numbers(after[key]).ravel(), part.detach().flatten(), atol=FLOAT64)


@pytest.mark.parametrize("name", MAMBA)
def test_states_have_the_entries_of_the_model_in_its_order(name: str) -> None:
    case = Case(name)
    sizes = {key: rows * columns for key, (rows, columns) in case.checked.shapes.items()}
    assert sizes == {key: zero.numel() for key, zero in case.zeros.items()}
    entries = [arb(index) for index in range(len(case.vector))]
    assert entries_of(case.checked.state(entries)) == entries
    with pytest.raises(AssertionError):
        case.checked.state([*entries, arb(0)])


@pytest.mark.parametrize("name", MAMBA)
def test_phi_alone_is_phi_with_derivatives(name: str) -> None:
    case = Case(name)
    with precision(128):
        latent, state = case.balls()
        for token, scale in ((0, 0.0), (1, 1.0), (2, 30.0)):
            z = [scale * entry for entry in latent]
            expected, _, _ = case.checked.evaluate(token, z, state, [0] * case.layers)
            found = case.checked.image(token, z, state)
            assert len(found) == case.size
            for ours, other in zip(found, expected, strict=True):
                assert ours.overlaps(other)
                # both are sharp: a few hundred operations at 128 bits, in a model of moderate slopes
                assert max(ours.rad(), other.rad()) < arb(2) ** -90


def test_the_precision_is_put_back() -> None:
    before = ctx.prec
    with pytest.raises(ZeroDivisionError), precision(200):
        arb_mat([[0]]).inv()
    assert ctx.prec == before
    with precision(200):
        assert ctx.prec == 200
    assert ctx.prec == before


def test_a_model_keeps_its_residual_unless_its_sizes_say_otherwise() -> None:
    """Configurations of the first format do not name it."""
    model: Any = build_model("implicit-mamba2", SIZES, make_task("S3"))
    weights, sizes = weights_of(model), model.config.model_dump()
    assert ArbModel(weights, sizes).residual is True
    assert ArbModel(weights, {**sizes, "residual": False}).residual is False
    del sizes["residual"]
    assert ArbModel(weights, sizes).residual is True
