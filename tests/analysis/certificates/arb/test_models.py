"""The checker's evaluations against the float64 models, and Φ alone against Φ with derivatives."""

from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from flint import arb, arb_mat, ctx

from analysis.certificates.arb.linear import exact_vector, precision
from analysis.certificates.arb.models import ArbModel
from analysis.certificates.claims.theorem1 import EVALUATIONS
from automata.tasks import make_task
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.models.registry import build_model
from theory import latent_jacobian
from theory.blocks import BlockMap
from theory.forward_mode import directional

SIZES: dict[str, Any] = {"d_model": 6, "head_size": 4, "d_state": 3}
GROUPS: dict[str, Any] = {**SIZES, "d_model": 8, "groups": 2, "d_conv": 2, "residual": False}
DELTA: dict[str, Any] = {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4}
PLACES = {"implicit-mamba2": (7, 5), "implicit-deltanet": (17, 13)}
"""Entries of ∂h'/∂h that are not zero: of DeltaNet's (1, 1, 1) and (1, 0, 1) of [heads, key, value]."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Mamba-2": ("implicit-mamba2", SIZES),
    "layers and groups": ("implicit-mamba2", {**GROUPS, "layers": 2}),
    "no window": ("implicit-mamba2", {**SIZES, "d_conv": 1}),
    "DeltaNet": ("implicit-deltanet", DELTA),
    "two layers of DeltaNet": ("implicit-deltanet", {**DELTA, "layers": 2, "residual": False, "d_conv": 2}),
    "reflections": ("implicit-deltanet", {**DELTA, "d_conv": 1, "negative_eigenvalues": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    kind, sizes = CASES[name]
    torch.manual_seed(0)
    model: Any = build_model(kind, sizes, make_task("S3"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    state = {
        key: torch.randn(entry.shape[1:], generator=generator, dtype=torch.float64)
        for key, entry in model.init_state(1).items()
    }
    size, layers, token = model.config.d_model, model.config.layers, 2
    z = torch.randn(size, generator=generator, dtype=torch.float64)
    row, column = PLACES[kind]
    with precision(128):
        checked = EVALUATIONS[kind](weights, model.config.model_dump())
        entries = checked.state([e for part in checked.shapes for e in exact_vector(state[part].numpy())])
        values, slopes, found = checked.evaluate(token, exact_vector(z.numpy()), entries, [column] * layers)
        rates = [checked.entry_rates(found, layer, (row, column), entries) for layer in range(layers)]
        same = [checked.entry_rates(found, layer, (column, column), entries) for layer in range(layers)]
    transition = model.double().transition(token)
    # 128 bits against float64: the rounding of the latter
    expected = transition.self_map(z, state).detach().numpy()
    np.testing.assert_allclose([float(value) for value in values], expected, atol=1e-13)
    A = latent_jacobian(transition, state, z).numpy()
    np.testing.assert_allclose([[float(e) for e in each[:size]] for each in slopes], A, atol=1e-12)
    for layer in range(layers):
        block = BlockMap(transition, state, (f"{checked.block}.{layer}",))
        unit = torch.zeros_like(block.vector)
        unit[column] = 1.0
        along = directional(partial(block.self_map, z), block.vector, unit[None])[0]
        np.testing.assert_allclose([float(each[size + layer]) for each in slopes], along.numpy(), atol=1e-12)
        direct = directional(partial(block.state_update, z), block.vector, unit[None])[0]
        assert float(rates[layer][size + layer]) == pytest.approx(direct[row].item(), abs=1e-12)
        assert float(same[layer][size + layer]) == pytest.approx(direct[column].item(), abs=1e-12)
        through = torch.func.jacrev(lambda z, block=block: block.state_update(z, block.vector)[row])(z)
        np.testing.assert_allclose([float(r) for r in rates[layer][:size]], through.detach(), atol=1e-12)


def test_the_precision_is_put_back() -> None:
    before = ctx.prec
    with pytest.raises(ZeroDivisionError), precision(200):
        arb_mat([[0]]).inv()
    assert ctx.prec == before
    with precision(200):
        assert ctx.prec == 200
    assert ctx.prec == before


@pytest.mark.parametrize(
    "sizes", [SIZES, GROUPS, {**SIZES, "d_conv": 1}], ids=["plain", "groups", "no window"]
)
def test_derivatives_along_directions_of_the_state(sizes: dict[str, Any]) -> None:
    """Of Φ and G along z and along columns of the whole state, window first, against autograd in float64."""
    torch.manual_seed(3)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **sizes)
    model = ImplicitMamba2(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    arb_model = ArbModel(weights, config.model_dump())
    transition = model.double().transition(1)
    shapes = {key: entry.shape[1:] for key, entry in model.init_state(1).items()}
    names = list(arb_model.shapes)
    counts = [int(np.prod(shapes[key])) for key in names]
    rng = torch.Generator().manual_seed(4)
    z = torch.randn(config.d_model, generator=rng, dtype=torch.float64)
    state = torch.randn(sum(counts), generator=rng, dtype=torch.float64)
    directions = torch.randn(sum(counts), 2, generator=rng, dtype=torch.float64)

    def parts(vector: torch.Tensor) -> dict[str, torch.Tensor]:
        return {key: part.view(shapes[key]) for key, part in zip(names, vector.split(counts), strict=True)}

    def both(latent: torch.Tensor, along: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        here = parts(state + directions @ along)
        after = transition.state_update(latent, here)
        return transition.self_map(latent, here), torch.cat([after[key].flatten() for key in names])

    nowhere = torch.zeros(2, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(both, (z, nowhere))
    with precision(128):
        rows = [[arb(float(entry)) for entry in row] for row in directions]
        image, rates, following = arb_model.evaluate_along(
            1, exact_vector(z.numpy()), arb_model.state(exact_vector(state.numpy())), rows
        )
    np.testing.assert_allclose([float(value) for value in image], both(z, nowhere)[0].detach(), atol=1e-13)
    for found, jacobians in ((rates, expected[0]), (following, expected[1])):
        numbers = np.array([[float(entry) for entry in row] for row in found])
        # 128 bits against float64 and its rounding
        np.testing.assert_allclose(numbers, torch.cat(jacobians, dim=1).numpy(), atol=1e-12)


def test_a_model_keeps_its_residual_unless_its_sizes_say_otherwise() -> None:
    """Configurations of the first format do not name it."""
    torch.manual_seed(0)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **SIZES)
    weights = {key: value.numpy() for key, value in ImplicitMamba2(config).state_dict().items()}
    sizes = config.model_dump()
    assert ArbModel(weights, sizes).residual is True
    assert ArbModel(weights, {**sizes, "residual": False}).residual is False
    assert (
        ArbModel(weights, {key: value for key, value in sizes.items() if key != "residual"}).residual is True
    )


def test_the_next_state_has_the_parts_of_every_layer() -> None:
    torch.manual_seed(5)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **{**GROUPS, "layers": 2})
    model = ImplicitMamba2(config)
    arb_model = ArbModel(
        {key: value.numpy() for key, value in model.state_dict().items()}, config.model_dump()
    )
    generator = torch.Generator().manual_seed(6)
    state = {
        key: torch.randn(entry.shape[1:], generator=generator, dtype=torch.float64)
        for key, entry in model.init_state(1).items()
    }
    z = torch.randn(config.d_model, generator=generator, dtype=torch.float64)
    with precision(128):
        rows = {
            key: [exact_vector(row) for row in entry.flatten(0, -2).numpy()] for key, entry in state.items()
        }
        _, _, found = arb_model.evaluate(1, exact_vector(z.numpy()), rows, None)
        after = arb_model.following(found, rows)
    expected = model.double().transition(1).state_update(z, state)
    assert set(after) == set(expected) == {"conv.0", "ssm.0", "conv.1", "ssm.1"}
    for key, part in expected.items():
        numbers = [float(entry) for row in after[key] for entry in row]
        np.testing.assert_allclose(numbers, part.detach().flatten(), atol=1e-13)  # float64 rounding


SHAPES: list[dict[str, Any]] = [
    {},
    {"d_conv": 1},
    {"groups": 2, "expand": 4},
    {"layers": 2, "residual": False},
    {"layers": 3, "expand": 4, "d_state": 5, "groups": 2},
]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_phi_alone_is_phi_with_derivatives(sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    whole = {"vocabulary_size": 3, "output_size": 2, "d_model": 4, "head_size": 4, "d_state": 2, **sizes}
    config = ImplicitMamba2Config(**cast(Any, whole))
    weights = {name: value.numpy() for name, value in ImplicitMamba2(config).state_dict().items()}
    generator = np.random.default_rng(0)
    with precision(128):
        model = ArbModel(weights, config.model_dump())
        count = sum(rows * columns for rows, columns in model.shapes.values())
        for token, scale in ((0, 0.0), (1, 1.0), (2, 30.0)):
            z = [arb(float(x)) for x in scale * generator.normal(size=model.size)]
            state = model.state([arb(float(x)) for x in generator.normal(size=count)])
            expected, _, _ = model.evaluate(token, z, state, [0] * len(model.blocks))
            found = model.image(token, z, state)
            assert len(found) == model.size
            for ours, other in zip(found, expected, strict=True):
                assert ours.overlaps(other)
                # both are sharp: a few hundred operations at 128 bits, in a model of moderate slopes
                assert ours.rad() < arb(2) ** -90
                assert other.rad() < arb(2) ** -90
