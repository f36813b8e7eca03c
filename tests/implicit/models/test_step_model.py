"""A `StepModel` of a user's reads a token where it is made: methods that do not fit are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from automata.errors import InputError
from implicit import ModelConfig, SequenceModel, StepModel
from implicit.models.torch_rnn import Elman, TorchRNNConfig
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


def _hooked(model: Any, config: ModelConfig) -> None:
    Right.__init__(model, config)
    model.register_forward_hook(lambda _module, _given, logits: -logits)


EMBEDDED, UPDATED, RUN = Right.embed, Right.update, Right.run
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"update": lambda self, *given: {"h": UPDATED(self, *given)["h"].softmax(0)}},
        "update of Wrong is another map of one state than of a batch, in 'h'; use the",
    ),
    (  # a map of the rows before, which the initial state, 0, does not show
        {"update": lambda self, state, inputs: UPDATED(self, {"h": state["h"].cumsum(0)}, inputs)},
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
    (
        {"embed": lambda self, tokens: EMBEDDED(self, tokens).cumsum(-2)},
        "Wrong answers a sequence otherwise than step by step (called); let answers depend on state and",
    ),
    ({"forward": lambda self, tokens: -self.run(tokens).logits}, "Wrong answers a sequence otherwise than"),
    ({"forward": lambda self, tokens: self.run(tokens)}, "forward of Wrong returns of type ModelOutput"),
    (
        {"__init__": lambda self, config: _hooked(self, config)},
        "Wrong answers a sequence otherwise than step by step (called)",
    ),
    (
        {"run": lambda self, tokens, state=None, solve=None, **given: RUN(self, tokens, **given)},
        "Wrong answers a sequence otherwise than step by step (behind 4 tokens)",
    ),
    (
        {"run": lambda self, tokens, state=None, solve=None, lengths=None: RUN(self, tokens, state)},
        "Wrong answers a sequence otherwise than step by step (state part 'h')",
    ),
    (
        {"init_state": lambda self, size: {"h": torch.ones(size, 4) / size}},
        "Wrong answers a sequence otherwise than step by step (alone)",
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


def test_a_network_whose_run_is_not_its_step_is_refused() -> None:
    class Sigmoid(Elman):
        def layer_step(self, *given: Any) -> State:
            return {"hidden": super().layer_step(*given)["hidden"].sigmoid()}

    with pytest.raises(
        InputError, match=r"Sigmoid answers a sequence otherwise than step by step \(called\)"
    ):
        Sigmoid(TorchRNNConfig(vocabulary_size=3, output_size=2, d_model=4))


def test_a_right_model_is_made_from_its_sizes_or_a_configuration() -> None:
    sizes: Any = {"vocabulary_size": 3, "output_size": 2}
    for model in (Right(**sizes), Right(ModelConfig(**sizes)), Noisy(**sizes)):
        assert model.training
        before = torch.get_rng_state()
        model.check_made()
        assert torch.equal(torch.get_rng_state(), before)
        assert model(torch.tensor([[0, 2]])).shape == (1, 2, 2)
