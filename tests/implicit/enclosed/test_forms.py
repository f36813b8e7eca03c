"""Models on balls, by the form by hand and by their own code: against float64, and refusals."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.enclosed.any_loop import (
    EnclosedAnyLoop,
    block_parts,
    boxes,
    enclosed_transitions,
    form_of,
    is_mamba2,
    with_exact_weights,
)
from implicit.enclosed.mamba2 import EnclosedMamba2, compare_form, exact
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config, Mamba2, Mamba2Config, build_model
from implicit.models.stack import CellStack
from implicit.models.torch_rnn import LSTM, LSTMConfig
from implicit.runs.loading import load_run
from tests.small_models import CONSTANT_STATE, small_sizes
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
IMPLICIT = [name for name in CONSTANT_STATE if name.startswith("implicit-")]
TOKENS = torch.tensor([0, 2])


def shaken(model: Any, by: float) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return model


def by_own_code(name: str, **overrides: Any) -> CellStack:
    torch.manual_seed(0)
    return shaken(build_model(name, {**small_sizes(name), **overrides}, make_task("S3")), 0.1)


def by_hand(**options: Any) -> ImplicitModel:
    torch.manual_seed(0)
    return shaken(ImplicitMamba2(ImplicitMamba2Config(**{**SIZES, **options})), 0.3)


def state_of(model: CellStack, positions: int) -> State:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(entry.shape, generator=generator, dtype=torch.float64)
        for name, entry in model.init_state(positions).items()
    }


def balls(state: State, radius: float = 0.0) -> dict[str, Ball]:
    """Boxes around a state; the window of a convolution is a point."""
    return {
        name: Ball.around(entry.numpy(), radius if name.startswith("ssm") else 0.0)
        for name, entry in state.items()
    }


def at(state: State, position: int) -> State:
    return {name: entry[position] for name, entry in state.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_derivatives_of_the_form_by_hand_are_those_of_the_model(name: str) -> None:
    model = by_hand(**OPTIONS[name])
    tokens, state = torch.tensor([0, 2, 1]), state_of(model, 3)
    z = torch.randn(3, model.config.d_model, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    transitions = EnclosedMamba2(model, tokens)
    image, _ = transitions.advance(Dual.variable(Ball.exact(z.numpy()), z.shape[1]), balls(state), {})
    rows, columns = np.array([5, 7, 0]), np.array([2, 7, 1])
    places = [(rows, columns)] * model.config.layers
    proved = enclose(transitions, balls(state), z.numpy(), np.full(3, 1e-12), places)
    precise = model.double()
    for position, token in enumerate(tokens.tolist()):
        transition, here = precise.transition(token), at(state, position)
        value = transition.self_map(z[position], here).detach().numpy()
        slope = latent_jacobian(transition, here, z[position]).numpy()
        # float64 evaluation of either side; the balls' own radii are below 1e-11 as well
        np.testing.assert_allclose(image.value.midpoint[position], value, atol=1e-12)
        np.testing.assert_allclose(image.tangent.midpoint[position], slope, atol=1e-11)
        # any latent will do: both sides are the formula of the implicit function theorem, fixed point or not
        for layer, jacobian in enumerate(layer_jacobians(transition, here, z[position])):
            expected = jacobian.dense()[rows[position], columns[position]].item()
            # an ill-conditioned I − ∂zΦ spreads the 1e-12 of the ball
            np.testing.assert_allclose(proved.entries[layer].midpoint[position], expected, rtol=1e-8)
    assert image.value.radius.max() < 1e-10


@pytest.mark.parametrize("overrides", [{}, {"layers": 2, "mlp_size": 5}], ids=["one layer", "two and MLPs"])
@pytest.mark.parametrize("name", IMPLICIT)
def test_values_and_an_entry_of_the_jacobian_by_own_code(name: str, overrides: dict[str, Any]) -> None:
    model = by_own_code(name, **overrides)
    state = state_of(model, len(TOKENS))
    transitions = enclosed_transitions(model, TOKENS)
    arrays = {part: entry.numpy() for part, entry in state.items()}
    size, layers = transitions.latent_size, len(transitions.blocks)
    z = torch.randn(len(TOKENS), size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    places = [(np.array([3, 1]), np.array([0, 1]))] * layers
    image, updates = transitions.advance(
        Dual.constant(Ball.exact(z.numpy()), 0), transitions.enclosed(arrays), {}
    )
    proved = enclose(transitions, transitions.enclosed(arrays), z.numpy(), np.full(2, 1e-13), places)
    precise = model.double()
    for position, token in enumerate(TOKENS.tolist()):
        transition = precise.transition(token)
        here = at(state, position)
        expected = transition.self_map(z[position], here).detach().numpy()
        np.testing.assert_allclose(image.value.midpoint[position], expected, atol=1e-12)
        following = transition.state_update(z[position], here)
        for names, update in zip(transitions.layer_states, updates, strict=True):
            whole = torch.cat([following[part].reshape(-1) for part in names]).detach().numpy()
            np.testing.assert_allclose(update.following.value.midpoint[position], whole, atol=1e-12)
        # any latent will do: both sides are the formula of the implicit function theorem, fixed point or not
        for layer, jacobian in enumerate(layer_jacobians(transition, here, z[position])):
            row, column = (places[layer][side][position] for side in (0, 1))
            entry = jacobian.dense()[row, column].item()
            ball = proved.entries[layer][position]
            assert ball.radius < 1e-3 * (1 + abs(entry))
            assert abs(entry - ball.midpoint) <= ball.radius + 1e-9 * (1 + abs(entry))
    assert image.value.radius.max() < 1e-7


def test_a_subclass_that_changes_the_transition_is_taken_by_its_code() -> None:
    class Halved(ImplicitMamba2):
        def advance(self, stream: Any, injections: Any, state: Any) -> Any:
            stream, following = super().advance(stream, injections, state)
            return stream, {name: part / 2 for name, part in following.items()}

    torch.manual_seed(0)
    config = {"vocabulary_size": 3, "output_size": 2, "d_model": 4, "head_size": 4, "d_state": 2}
    model = Halved(ImplicitMamba2Config(**config))
    assert not is_mamba2(model)
    assert is_mamba2(ImplicitMamba2(ImplicitMamba2Config(**config)))
    arrays = {name: np.ones(part.shape) for name, part in model.init_state(2).items()}
    transitions = enclosed_transitions(model, TOKENS)
    latent = Dual.constant(Ball.exact(np.ones((2, 4))), 0)
    _, (update,) = transitions.advance(latent, transitions.enclosed(arrays), {})
    here = {name: torch.from_numpy(part[0]) for name, part in arrays.items()}
    following = model.double().transition(0).state_update(torch.ones(4, dtype=torch.float64), here)
    expected = following["ssm.0"].detach().numpy().ravel()
    np.testing.assert_allclose(update.following.value.midpoint[0], expected, rtol=1e-12)


def test_weights_are_exact_and_the_model_is_left_as_it_is() -> None:
    model = by_own_code("implicit-deltanet")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    twin = with_exact_weights(model)
    weight = twin.mixers[0].in_proj.weight
    assert weight.value.radius.max() == 0
    assert (weight.value.midpoint[0] == before["mixers.0.in_proj.weight"].double().numpy()).all()
    assert all((tensor == before[name]).all() for name, tensor in model.state_dict().items())
    # the injections were computed of weights alone, and are enclosed too
    inputs = enclosed_transitions(model, TOKENS)._inputs
    assert all((part.value.radius > 0).any() for part in inputs.values())


def test_boxes_hold_the_values_at_their_points() -> None:
    model = by_hand(layers=2)
    state = state_of(model, 1)
    z = torch.randn(1, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    radius = 1e-4  # with 1e-3 a norm's ball reaches zero, and nothing is said
    transitions = EnclosedMamba2(model, torch.tensor([1]))
    region = Ball.around(z.numpy(), radius)
    image, _ = transitions.advance(Dual.variable(region, 6), balls(state, radius), {})
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
    state = balls(state_of(model, 2))
    for layer in range(layers):
        block = f"ssm.{layer}"
        everywhere = {**state, block: Ball.around(np.zeros(state[block].shape), np.inf)}
        assert independent_of_state(transitions, everywhere)[layer].all()


def test_a_layer_that_reads_the_state_of_an_earlier_one_is_seen_to_do_so() -> None:
    # Directions of both layers in one column: the second layer's coefficients depend on the first layer's h.
    torch.manual_seed(0)
    model = Mamba2(Mamba2Config(**SIZES, layers=2))
    transitions = EnclosedMamba2(model, torch.tensor([0]))
    state = balls(state_of(model, 1))
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


@pytest.mark.parametrize("layers", [1, 2])
def test_boxes_widen_h_and_nothing_else(layers: int) -> None:
    model = by_hand(layers=layers)
    state = {name: part.numpy() for name, part in state_of(model, 3).items()}
    form = form_of(model, torch.tensor([0, 1, 2]))
    found = boxes(form, block_parts(model), state, np.array([0.5, 0.0, 0.25]))
    assert set(found) == set(state)
    for name, ball in found.items():
        np.testing.assert_array_equal(ball.midpoint, state[name])
        expected = [0.5, 0.0, 0.25] if name.startswith("ssm.") else [0.0, 0.0, 0.0]
        for position, radius in enumerate(expected):
            assert (ball.radius[position] >= radius).all()
            assert (ball.radius[position] <= radius * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pd-ssm", "cell PDSSMCell cannot be enclosed: torch.complex has no form on balls; write it with"),
        ("gru", "model is a gru, which is no stack of cells; give an implicit model of a cell, or your own"),
        ("transformer", "whose state grows with every token"),
        ("implicit-transformer", "whose state grows with every token"),
    ],
)
def test_what_cannot_be_enclosed_is_named_with_what_to_write(name: str, sentence: str) -> None:
    torch.manual_seed(0)
    model = build_model(name, small_sizes(name), make_task("S3"))
    with pytest.raises(InputError, match=sentence) as refusal:
        enclosed_transitions(model, TOKENS)
    assert "\n" not in str(refusal.value)
    assert not isinstance(model, ImplicitModel) or model.state_grows


def test_models_without_a_form_are_refused() -> None:
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
    with pytest.raises(InputError, match="model is lstm"):
        EnclosedMamba2(model, torch.tensor([0]))
    other: Any = by_own_code("implicit-deltanet")
    other.head = nn.Sequential(other.head, nn.Tanh())
    with pytest.raises(InputError, match="head of the model is not"):
        EnclosedAnyLoop(other)


def test_what_is_exchanged_in_a_model_is_in_its_form_or_refused() -> None:
    model: Any = load_run("parity-small").model
    assert is_mamba2(model)
    compare_form(model)
    halved = type("Halved", (type(model),), {"_inject": lambda *_: []})(model.config)
    assert not is_mamba2(halved)
    model.embedding.max_norm = 0.5
    with pytest.raises(InputError, match="computes otherwise than its weights say"):
        compare_form(model)
    model.injections[0] = type("Scaled", (nn.Linear,), {})(8, model.cells[0].injection_size, bias=False)
    assert not is_mamba2(model)
