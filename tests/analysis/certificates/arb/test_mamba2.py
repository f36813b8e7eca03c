"""The checker's evaluation against the float64 model, and against the producer's balls."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_mat, ctx

from analysis.certificates.arb.models import ArbModel, exact_vector, precision
from implicit.enclosed.mamba2 import EnclosedMamba2
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from theory import latent_jacobian
from theory.blocks import BlockMap
from theory.derivatives import directional
from theory.rigorous.balls import Ball, Dual

SIZES: dict[str, Any] = {"d_model": 6, "head_size": 4, "d_state": 3}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layers and groups": {"layers": 2, "d_model": 8, "groups": 2, "d_conv": 2, "residual": False},
    "no window": {"d_conv": 1},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_derivatives(name: str) -> None:
    torch.manual_seed(0)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **{**SIZES, **OPTIONS[name]})
    model = ImplicitMamba2(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    state = {
        key: torch.randn(entry.shape[1:], generator=generator, dtype=torch.float64)
        for key, entry in model.init_state(1).items()
    }
    size, token = config.d_model, 2
    z = torch.randn(size, generator=generator, dtype=torch.float64)
    sources = [5] * config.layers
    with precision(128):
        rows = {
            key: [exact_vector(row) for row in entry.flatten(0, -2).numpy()] for key, entry in state.items()
        }
        values, slopes, _ = ArbModel(weights, config.model_dump()).evaluate(
            token, exact_vector(z.numpy()), rows, sources
        )
    transition = model.double().transition(token)
    expected = transition.self_map(z, state).detach().numpy()
    A = latent_jacobian(transition, state, z)
    # 128 bits against float64: the rounding of the latter
    np.testing.assert_allclose([float(value) for value in values], expected, atol=1e-13)
    np.testing.assert_allclose([[float(e) for e in row[:size]] for row in slopes], A.numpy(), atol=1e-12)
    for layer in range(config.layers):
        block = BlockMap(transition, state, (f"ssm.{layer}",))
        unit = torch.zeros_like(block.vector)
        unit[sources[layer]] = 1.0
        along = directional(partial(block.self_map, z), block.vector, unit[None])[0]
        np.testing.assert_allclose([float(row[size + layer]) for row in slopes], along.numpy(), atol=1e-12)

    balls = {key: Ball.exact(entry.numpy()[None]) for key, entry in state.items()}
    latent = Dual.variable(Ball.exact(z.numpy()[None]), size)
    image, _ = EnclosedMamba2(model.float(), torch.tensor([token])).advance(latent, balls, {})
    for i in range(size):
        for j in range(size):
            middle, radius = image.tangent.midpoint[0, i, j], image.tangent.radius[0, i, j]
            assert arb(float(middle), float(radius)).overlaps(slopes[i][j])


def test_the_precision_is_put_back() -> None:
    before = ctx.prec
    with pytest.raises(ZeroDivisionError), precision(200):
        arb_mat([[0]]).inv()
    assert ctx.prec == before
    with precision(200):
        assert ctx.prec == 200
    assert ctx.prec == before


@pytest.mark.parametrize("name", ["plain", "one layer with groups", "no window"])
def test_derivatives_along_directions_of_the_state(name: str) -> None:
    """Of Φ and G along z and along columns of the whole state, window first, against autograd in float64."""
    options: dict[str, Any] = {
        **OPTIONS,
        "one layer with groups": {"d_model": 8, "groups": 2, "d_conv": 2, "residual": False},
    }[name]
    torch.manual_seed(3)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **{**SIZES, **options})
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
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, **{**SIZES, "layers": 2})
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
