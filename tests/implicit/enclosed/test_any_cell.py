"""Models of every cell on balls by their own code: against float64, the form by hand, and refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.enclosed.any_loop import enclosed_transitions, with_exact_weights
from implicit.enclosed.forms import form_of, is_mamba2, widest
from implicit.models.implicit_model import ImplicitModel
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.models.registry import MODELS, build_model
from implicit.models.stack import CellStack
from tests.small_models import small_sizes
from theory import layer_jacobians
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.enclosure import enclose

IMPLICIT = sorted(
    name for name, model in MODELS.items() if name.startswith("implicit-") and not model.state_grows
)
TOKENS = torch.tensor([0, 2])


def _model(name: str, **overrides: Any) -> CellStack:
    torch.manual_seed(0)
    model = build_model(name, {**small_sizes(name), **overrides}, make_task("S3"))
    assert isinstance(model, CellStack)
    with torch.no_grad():
        for parameter in model.parameters():  # nothing is left at one or zero
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _state(model: CellStack) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(entry.shape, generator=generator, dtype=torch.float64)
        for name, entry in model.init_state(len(TOKENS)).items()
    }


@pytest.mark.parametrize("overrides", [{}, {"layers": 2, "mlp_size": 5}], ids=["one layer", "two and MLPs"])
@pytest.mark.parametrize("name", IMPLICIT)
def test_values_and_an_entry_of_the_jacobian(name: str, overrides: dict[str, Any]) -> None:
    model = _model(name, **overrides)
    state = _state(model)
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
        here = {part: entry[position] for part, entry in state.items()}
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
    model = _model("implicit-deltanet")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    twin = with_exact_weights(model)
    weight = twin.mixers[0].in_proj.weight
    assert weight.value.radius.max() == 0
    assert (weight.value.midpoint[0] == before["mixers.0.in_proj.weight"].double().numpy()).all()
    assert all((tensor == before[name]).all() for name, tensor in model.state_dict().items())
    # the injections were computed of weights alone, and are enclosed too
    inputs = enclosed_transitions(model, TOKENS)._inputs
    assert all((part.value.radius > 0).any() for part in inputs.values())


def test_how_much_is_differentiated_at_once() -> None:
    for name in ("implicit-mamba2", "implicit-deltanet"):
        model = _model(name)
        assert widest(model, form_of(model, TOKENS)) > 0


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
