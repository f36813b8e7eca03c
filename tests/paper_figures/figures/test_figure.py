"""The frame: which runs a figure trains, what it stores about them, and the caption."""

from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from implicit import load_run, recipe
from implicit.runs.loading import Run
from implicit.train import train
from paper_figures.figures.figure import PaperFigure, Results, RunRecipe, Runs

RECIPES = (RunRecipe("parity", "lstm", 1), RunRecipe("parity", "lstm", 0), RunRecipe("parity", "mamba2", 1))


def losses(runs: Runs) -> Results:
    return {wanted.name: run.metrics[-1]["loss"] for wanted, run in runs.items()}


FIGURE = PaperFigure(
    "losses",
    "Losses",
    RECIPES,
    losses,
    lambda found: Figure(figsize=(4, 3)),
    lambda found: f"{len(found)} losses.",
)


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes of two steps."""
    monkeypatch.setattr(
        "paper_figures.figures.figure.recipe",
        lambda task, model, seed: recipe(
            task, model, seed=seed, steps=2, warmup_steps=1, batch_size=4, d_model=16
        ),
    )


@pytest.mark.usefixtures("short_training")
def test_rerun_trains_what_is_missing_and_takes_what_is_there(tmp_path: Path) -> None:
    first = FIGURE.recompute(tmp_path)
    weights = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/model.safetensors")}
    assert {path.parent.name for path in weights} == {wanted.name for wanted in RECIPES}
    again = FIGURE.recompute(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in weights} == weights
    assert again.results == first.results == losses({w: load_run(tmp_path / w.name) for w in RECIPES})


@pytest.mark.usefixtures("short_training")
def test_stores_seeds_commands_and_hashes_of_the_runs(tmp_path: Path) -> None:
    stored = FIGURE.recompute(tmp_path)
    assert stored.seeds == [0, 1]
    assert stored.command == "python -m paper_figures losses --rerun"
    for wanted, about in zip(RECIPES, stored.runs, strict=True):
        run = load_run(tmp_path / wanted.name)
        assert dict(about) == {**asdict(RunIdentity.of(run)), "command": wanted.command}
    assert FIGURE.full_caption(stored) == "3 losses. Training runs: lstm 2 (seeds 0, 1); mamba2 1 (seed 1)."


@pytest.mark.usefixtures("short_training")
def test_a_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    other = recipe("parity", "lstm", seed=1, steps=3, warmup_steps=1, batch_size=4, d_model=16)
    train(other, tmp_path / RECIPES[0].name, progress=False)
    with pytest.raises(InputError, match="was begun with"):
        FIGURE.recompute(tmp_path)


@pytest.mark.usefixtures("short_training")
def test_the_picture_holds_the_whole_caption(tmp_path: Path) -> None:
    stored = FIGURE.recompute(tmp_path)
    picture = FIGURE.picture(stored)
    assert " ".join(picture.get_supxlabel().split()) == FIGURE.full_caption(stored)


def test_runs_are_type_checked_mappings() -> None:
    run: dict[RunRecipe, Run] = {}
    assert losses(run) == {}
