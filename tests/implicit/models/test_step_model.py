"""A `StepModel` of a user's reads a token where it is made: methods that do not fit are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from automata.errors import InputError
from implicit import ModelConfig, SequenceModel, StepModel
from theory.transition import State


class Right(StepModel):
    """h ← tanh(W h + x)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.embedding, self.head = nn.Embedding(config.vocabulary_size, 4), nn.Linear(4, config.output_size)
        self.recurrent = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def init_state(self, batch_size: int) -> State:
        return {"h": self.head.weight.new_zeros(batch_size, 4)}

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens)

    def update(self, state: State, inputs: Tensor) -> State:
        return {"h": torch.tanh(self.recurrent(state["h"]) + inputs)}

    def read(self, state: State) -> Tensor:
        return self.head(state["h"])


class Noisy(Right):
    """Random on purpose, which is no fault."""

    def update(self, state: State, inputs: Tensor) -> State:
        return {"h": super().update(state, inputs)["h"] + torch.randn_like(inputs)}


UPDATED = Right.update
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"update": lambda self, *given: {"h": UPDATED(self, *given)["h"].softmax(0)}},
        "update of Wrong is another map of one state than of a batch, in 'h'; use the",
    ),
    (
        {"read": lambda self, state: torch.zeros(2, 5)},
        "read of Wrong returns shape [2, 5]; return [batch, 2]",
    ),
    (
        {"embed": lambda self, tokens: torch.zeros(len(tokens), 8)},
        "update of Wrong raises RuntimeError (The size of tensor a (4) must match",
    ),
    (
        {"update": lambda self, *given: {"g": UPDATED(self, *given)["h"]}},
        "update of Wrong returns the state {'g': [2, 4]}; return {'h': [2, 4]}, as it is given",
    ),
    (
        {"update": lambda self, *given: UPDATED(self, *given)["h"]},
        "update of Wrong returns of type Tensor; return a state, named tensors",
    ),
    (
        {"init_state": lambda self, batch_size: {"h": torch.zeros(4)}},
        "state part 'h' of init_state of Wrong has shape [4]; return the batch in front",
    ),
    ({"layer_states": (("x",),)}, "layer_states of Wrong names 'x'; name entries of h"),
]


@pytest.mark.parametrize(("members", "sentence"), WRONG, ids=lambda value: str(value)[:20])
def test_methods_that_do_not_fit_are_refused_in_a_sentence(members: dict[str, Any], sentence: str) -> None:
    model: Any = type("Wrong", (Right,), members)
    with pytest.raises(InputError) as caught:
        model(vocabulary_size=3, output_size=2)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("base", [StepModel, SequenceModel])
def test_a_class_without_its_methods_is_refused_in_a_sentence(base: Any) -> None:
    lacking = type("Lacking", (base,), {"init_state": Right.init_state})
    names = ["embed", "read", "update"] if base is StepModel else ["run", "step", "transitions"]
    with pytest.raises(InputError) as caught:
        lacking(vocabulary_size=3, output_size=2)
    every = ", ".join(sorted([*names, "init_state"]))
    assert str(caught.value) == (
        f"Lacking lacks {', '.join(names)}; a {base.__name__} has the methods {every} (docs/extending.md)"
    )


def test_a_right_model_is_made_from_its_sizes_or_a_configuration() -> None:
    sizes: Any = {"vocabulary_size": 3, "output_size": 2}
    for model in (Right(**sizes), Right(ModelConfig(**sizes)), Noisy(**sizes)):
        assert model.training
        assert model(torch.tensor([[0, 2]])).shape == (1, 2, 2)
