"""Models and their configurations can be pickled, saved by PyTorch and copied."""

import copy
import io
import pickle
from typing import TypeVar

import pytest
import torch

from implicit.models import MODELS
from tests.implicit.models.contract_cases import build_case

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
    model, tokens = build_case(name), torch.tensor([[0, 1, 2]])
    for again in (pickled, saved, copy.deepcopy):
        back = again(model)
        assert type(back) is type(model)
        assert back.config == model.config
        assert torch.equal(back(tokens), model(tokens))
