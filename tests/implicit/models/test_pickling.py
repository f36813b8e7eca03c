"""Models and their configurations can be pickled, saved by PyTorch and copied."""

import copy
import io
import pickle
from typing import TypeVar

import pytest
import torch

from automata.errors import InputError
from implicit.models import MODELS
from tests.implicit.models.contract_cases import WRAPPED, build_case

Value = TypeVar("Value")


def pickled(value: Value) -> Value:
    return pickle.loads(pickle.dumps(value))


def saved(value: Value) -> Value:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back(name: str) -> None:
    torch.manual_seed(0)  # of some random weights no fixed point is found
    model, tokens = build_case(name), torch.tensor([[0, 1, 2]])
    for again in (pickled, saved, copy.deepcopy):
        back = again(model)
        assert type(back) is type(model)
        assert back.config == model.config
        assert torch.equal(back(tokens), model(tokens))


@pytest.mark.parametrize("name", [*MODELS, WRAPPED])
def test_a_transition_comes_back(name: str) -> None:
    model = build_case(name)
    try:
        batch = model.transitions(torch.tensor([1, 2]))
    except InputError:
        pytest.skip("the state grows")
    state = {part: entry[0] + 0.5 for part, entry in model.init_state(1).items()}
    latent = torch.full((batch.latent_size,), 0.25, dtype=next(iter(state.values())).dtype)
    for transition in (model.transition(1), batch[0]):
        for again in (pickled, saved, copy.deepcopy):
            back = again(transition)
            assert torch.equal(back.self_map(latent, state), transition.self_map(latent, state))
            following = transition.state_update(latent, state)
            assert all(torch.equal(back.state_update(latent, state)[part], following[part]) for part in state)
    assert torch.equal(pickled(batch)[0].self_map(latent, state), transition.self_map(latent, state))
