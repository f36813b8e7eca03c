"""The models on balls against their float64 forms, for every option of the cell."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.enclosed.forms import block_parts, boxes, form_of
from implicit.enclosed.mamba2 import EnclosedMamba2, exact
from implicit.models.implicit_model import ImplicitModel
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config, Mamba2, Mamba2Config
from implicit.models.stack import CellStack
from implicit.models.torch_rnn import LSTM, LSTMConfig
from theory import State, latent_jacobian, layer_jacobians
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.enclosure import enclose, independent_of_state

SIZES: dict[str, Any] = {"vocabulary_size": 3, "output_size": 2, "d_model": 6, "head_size": 4, "d_state": 3}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layers": {"layers": 2},
    "groups": {"d_model": 8, "head_size": 4, "groups": 2},
    "no window": {"d_conv": 1},
    "no residual": {"residual": False, "layers": 2, "d_conv": 2},
}


def _model(**options: Any) -> ImplicitModel:
    torch.manual_seed(0)
    model = ImplicitMamba2(ImplicitMamba2Config(**{**SIZES, **options}))
    with torch.no_grad():
        for parameter in model.parameters():  # nothing is left at one or zero
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def _state(model: CellStack, positions: int) -> State:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(entry.shape, generator=generator, dtype=torch.float64)
        for name, entry in model.init_state(positions).items()
    }


def _balls(state: State, radius: float = 0.0) -> dict[str, Ball]:
    return {
        name: Ball.around(entry.numpy(), radius if name.startswith("ssm") else 0.0)
        for name, entry in state.items()
    }


def _at(state: State, position: int) -> State:
    return {name: entry[position] for name, entry in state.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_derivatives_are_those_of_the_model(name: str) -> None:
    model = _model(**OPTIONS[name])
    tokens = torch.tensor([0, 2, 1])
    state = _state(model, 3)
    z = torch.randn(3, model.config.d_model, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    transitions = EnclosedMamba2(model, tokens)
    image, _ = transitions.advance(Dual.variable(Ball.exact(z.numpy()), z.shape[1]), _balls(state), {})
    precise = model.double()
    for position, token in enumerate(tokens.tolist()):
        transition = precise.transition(token)
        value = transition.self_map(z[position], _at(state, position)).detach().numpy()
        slope = latent_jacobian(transition, _at(state, position), z[position]).numpy()
        # float64 evaluation of either side; the balls' own radii are below 1e-11 as well
        np.testing.assert_allclose(image.value.midpoint[position], value, atol=1e-12)
        np.testing.assert_allclose(image.tangent.midpoint[position], slope, atol=1e-11)
    assert image.value.radius.max() < 1e-10


@pytest.mark.parametrize("name", OPTIONS)
def test_an_entry_of_the_jacobian_is_that_of_the_implicit_function_theorem(name: str) -> None:
    model = _model(**OPTIONS[name])
    state = _state(model, 2)
    tokens = torch.tensor([1, 2])
    # Any latent will do: both sides are the same formula, at a fixed point or not.
    z = torch.zeros(2, model.config.d_model, dtype=torch.float64)
    transitions = EnclosedMamba2(model, tokens)
    rows, columns = np.array([5, 7]), np.array([2, 7])
    places = [(rows, columns)] * model.config.layers
    bounds = enclose(transitions, _balls(state), z.numpy(), np.array([1e-12, 1e-12]), places)
    precise = model.double()
    for position, token in enumerate(tokens.tolist()):
        jacobians = layer_jacobians(precise.transition(token), _at(state, position), z[position])
        for layer, jacobian in enumerate(jacobians):
            expected = jacobian.dense()[rows[position], columns[position]].item()
            # an ill-conditioned I − ∂zΦ spreads the 1e-12 of the ball
            np.testing.assert_allclose(bounds.entries[layer].midpoint[position], expected, rtol=1e-8)


def test_boxes_hold_the_values_at_their_points() -> None:
    model = _model(layers=2)
    state = _state(model, 1)
    z = torch.randn(1, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    radius = 1e-4  # with 1e-3 a norm's ball reaches zero, and nothing is said
    transitions = EnclosedMamba2(model, torch.tensor([1]))
    region = Ball.around(z.numpy(), radius)
    image, _ = transitions.advance(Dual.variable(region, 6), _balls(state, radius), {})
    transition = model.double().transition(1)
    generator = torch.Generator().manual_seed(3)

    def inside(centre: Tensor) -> Tensor:
        signs = 2 * torch.rand(centre.shape, generator=generator, dtype=torch.float64) - 1
        return centre + radius * signs

    for _ in range(30):
        point = inside(z)[0]
        here = {name: inside(e)[0] if name.startswith("ssm") else e[0] for name, e in state.items()}
        value = transition.self_map(point, here).detach().numpy()
        slope = latent_jacobian(transition, here, point).numpy()
        assert (np.abs(value - image.value.midpoint[0]) <= image.value.radius[0]).all()
        assert (np.abs(slope - image.tangent.midpoint[0]) <= image.tangent.radius[0]).all()


@pytest.mark.parametrize("layers", [1, 2])
def test_the_explicit_model_is_diagonal_at_every_real_state(layers: int) -> None:
    torch.manual_seed(0)
    model = Mamba2(Mamba2Config(**SIZES, layers=layers))
    transitions = EnclosedMamba2(model, torch.tensor([0, 1]))
    state = _balls(_state(model, 2))
    for layer in range(layers):
        block = f"ssm.{layer}"
        everywhere = {**state, block: Ball.around(np.zeros(state[block].shape), np.inf)}
        assert independent_of_state(transitions, everywhere)[layer].all()


def test_a_layer_that_reads_the_state_of_an_earlier_one_is_seen_to_do_so() -> None:
    # Directions of both layers in one column: the second layer's coefficients depend on the first layer's h.
    torch.manual_seed(0)
    model = Mamba2(Mamba2Config(**SIZES, layers=2))
    transitions = EnclosedMamba2(model, torch.tensor([0]))
    state = _balls(_state(model, 1))
    directions = {name: Ball.around(np.zeros(state[name].shape), 1.0) for name in transitions.blocks}
    nothing = Dual.constant(Ball.exact(np.zeros((1, 0))), 2)
    _, updates = transitions.advance(nothing, state, directions)
    assert updates[1].coefficients.tangent[..., 1].is_zero.all()
    assert not updates[1].coefficients.tangent[..., 0].is_zero.any()


def test_the_weights_are_exactly_the_stored_floats() -> None:
    tensor = torch.tensor([0.1, -3e-8], dtype=torch.float32)
    ball = exact(tensor)
    assert ball.radius.tolist() == [0, 0]
    assert ball.midpoint.astype(np.float32).tolist() == tensor.tolist()


def test_models_without_a_form_are_refused() -> None:
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
    with pytest.raises(InputError, match="model is lstm"):
        EnclosedMamba2(model, torch.tensor([0]))


@pytest.mark.parametrize("layers", [1, 2])
def test_boxes_widen_h_and_nothing_else(layers: int) -> None:
    """At every position by its own radius; the window is a point."""
    model = _model(layers=layers)
    state = {name: part.numpy() for name, part in _state(model, 3).items()}
    form = form_of(model, torch.tensor([0, 1, 2]))
    found = boxes(form, block_parts(model), state, np.array([0.5, 0.0, 0.25]))
    assert set(found) == set(state)
    for name, ball in found.items():
        np.testing.assert_array_equal(ball.midpoint, state[name])
        expected = [0.5, 0.0, 0.25] if name.startswith("ssm.") else [0.0, 0.0, 0.0]
        for position, radius in enumerate(expected):
            assert (ball.radius[position] >= radius).all()
            assert (ball.radius[position] <= radius * (1 + 1e-12)).all()
