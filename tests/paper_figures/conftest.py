"""Runs of untrained models, small enough for every computation to take a moment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from automata.tasks.registry import make_task
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model
from paper_figures.figures.figure import RunRecipe

SIZES: dict[str, dict[str, Any]] = {
    "implicit-mamba2": {"d_model": 4, "head_size": 4, "d_state": 2, "residual": False},
    "mamba2": {"d_model": 4, "head_size": 4, "d_state": 2},
    "lstm": {"d_model": 4},
}


@pytest.fixture(scope="session")
def untrained() -> Callable[[RunRecipe], Run]:
    """Make the run of a recipe with its initial weights and small sizes."""

    def make(wanted: RunRecipe) -> Run:
        config = recipe(wanted.task, wanted.model, seed=wanted.seed, **SIZES[wanted.model])
        task = make_task(wanted.task)
        model = initial_model(config, task)
        if model.implicit is not None:  # a self-map that depends little on z is a contraction
            model.get_parameter("mixers.0.in_proj.weight").data.mul_(0.1)
        return Run(Path("runs") / wanted.name, config, model, task, [])

    return make
