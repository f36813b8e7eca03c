"""Every model by name, with the alphabets of the task and the sizes asked for."""

import pytest

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.models.registry import MODELS, build_model, complete_sizes, size_names


@pytest.mark.parametrize("name", MODELS)
def test_completed_sizes_build_the_same_model_as_the_defaults(name: str) -> None:
    """The content of a run folder does not change when a default does, for it holds every size."""
    task = make_task("parity")
    sizes = complete_sizes(name, {})
    assert tuple(sizes) == size_names(name)
    assert build_model(name, sizes, task).config == build_model(name, {}, task).config


@pytest.mark.parametrize("alphabet", ["vocabulary_size", "output_size"])
def test_alphabets_follow_from_the_task(alphabet: str) -> None:
    with pytest.raises(InputError, match=f"{alphabet} is 3; leave it out"):
        build_model("lstm", {alphabet: 3}, make_task("parity"))
