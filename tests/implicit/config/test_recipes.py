"""The recipes: for every task and model a valid configuration, with the flags on top."""

from itertools import cycle
from pathlib import Path

import pytest

from automata.tasks.registry import make_task
from implicit.config.curriculum import Curriculum
from implicit.config.recipes import RECIPES, recipe
from implicit.models.registry import MODELS, build_model, size_names
from implicit.training.train import train
from tests.docs.page import EXAMPLES


# Every model, with the tasks in turn; every task of the recipes, with one model.
@pytest.mark.parametrize(
    ("task", "model"),
    [*zip(cycle(["parity", "S5-generators", "A5"]), MODELS), *((task, "mamba2") for task in RECIPES)],
)
def test_recipe_is_valid_and_its_sizes_divide(task: str, model: str) -> None:
    config = recipe(task, model)
    assert (config.task, config.model) == (task, model)
    assert build_model(model, config.sizes, make_task(task)).parameter_count() > 0


@pytest.mark.parametrize("task", RECIPES)
def test_controls_train_as_the_implicit_model_does(task: str) -> None:
    implicit, *controls = (recipe(task, model) for model in ("implicit-mamba2", "mamba2", "lstm"))
    for control in controls:
        own = {"model", "sizes"}
        assert control.model_dump(exclude=own) == implicit.model_dump(exclude=own)
        for size in set(size_names(control.model)) & set(size_names("implicit-mamba2")):
            assert control.sizes[size] == implicit.sizes[size]


def test_an_automaton_without_a_recipe_trains_as_s3_does_and_answers_drawn_at_random_do_not() -> None:
    automaton, others = {"regex": "(b|ab*ab*a)*"}, {"task"}
    for model, share in (("implicit-mamba2", 0.9), ("lstm", 0.5)):
        expected = recipe("S3", model, carried_share=share).model_dump(exclude=others)
        assert recipe(automaton, model, carried_share=share).model_dump(exclude=others) == expected
    assert not recipe("noisy-parity-states", "implicit-mamba2").curriculum.loss_until_error


def test_group_among_the_overrides_takes_the_place_of_the_recipes() -> None:
    curriculum = Curriculum(bounded_steps=3)
    config = recipe("S3", "lstm", curriculum=curriculum, free_rtol=0.5)
    assert config.curriculum == Curriculum(bounded_steps=3, free_rtol=0.5)
    assert config.optimizer == recipe("S3", "lstm").optimizer


def test_fewer_steps_shorten_the_final_phase_in_proportion(tmp_path: Path) -> None:
    for steps, final in ((1, 1), (150, 30), (1499, 299), (1500, 300), (9000, 300)):
        assert recipe("S3", "lstm", steps=steps, warmup_steps=1).curriculum.final_steps == final
    assert recipe("S3", "lstm", steps=9000, final_steps=7).curriculum.final_steps == 7
    run = train(recipe("S3", "lstm", steps=1, warmup_steps=1), tmp_path / "run", progress=False)
    assert [entry["step"] for entry in run.metrics] == [1]


def test_a_cell_of_the_users_and_its_twin_train_alike_by_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    explicit, twin, step = (
        recipe("S3", name) for name in ("leaky_cell:Leaky", "leaky_cell:ImplicitLeaky", "own_gru:OwnGRU")
    )
    assert explicit.curriculum == twin.curriculum
    assert twin.curriculum.free_mode == "simultaneous"
    assert twin.curriculum == recipe({"regex": "(b|ab*ab*a)*"}, "leaky_cell:ImplicitLeaky").curriculum
    assert step.curriculum == recipe("S3", "lstm").curriculum
    assert recipe("A4", "leaky_cell:ImplicitLeaky").curriculum == recipe("A4", "mamba2").curriculum
