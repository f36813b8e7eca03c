"""Every model by name, with the alphabets of the task and the sizes asked for."""

import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import MODELS, build_model, complete_sizes, size_names
from tests.solving import solved


@pytest.mark.parametrize("name", MODELS)
def test_model_reads_the_tokens_and_predicts_the_states_of_its_task(name: str) -> None:
    task = make_task("S5-generators")
    model = build_model(name, {"d_model": 16}, task)
    assert model.name == name
    tokens = torch.tensor([[0, 1, 2, 3, 4]])
    # Initial weights need not have a fixed point; calling the model would warn of that.
    logits = solved(model, tokens).logits if isinstance(model, ImplicitModel) else model(tokens)
    assert logits.shape == (1, 5, 120)
    with pytest.raises(InputError, match="token 5 is outside the vocabulary"):
        model(torch.tensor([[5]]))


@pytest.mark.parametrize("name", MODELS)
def test_completed_sizes_build_the_same_model_as_the_defaults(name: str) -> None:
    """What a run folder stores does not change when a default does, for it holds every size."""
    task = make_task("parity")
    sizes = complete_sizes(name, {})
    assert tuple(sizes) == size_names(name)
    assert build_model(name, sizes, task).config == build_model(name, {}, task).config


@pytest.mark.parametrize("alphabet", ["vocabulary_size", "output_size"])
def test_alphabets_follow_from_the_task(alphabet: str) -> None:
    with pytest.raises(InputError, match=f"{alphabet} is 3; leave it out"):
        build_model("lstm", {alphabet: 3}, make_task("parity"))
