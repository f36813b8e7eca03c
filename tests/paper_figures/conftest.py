"""Points with untrained models, small enough for every measurement to take a moment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model
from paper_figures.experiments.grid import Point

SIZES: dict[str, dict[str, Any]] = {
    "implicit-mamba2": {"d_model": 4, "head_size": 4, "d_state": 2, "residual": False},
    "mamba2": {"d_model": 4, "head_size": 4, "d_state": 2},
    "lstm": {"d_model": 4},
}


@pytest.fixture(scope="session")
def untrained() -> Callable[[Point], Run]:
    """Make the run of a point with its initial weights and small sizes."""

    def make(point: Point) -> Run:
        config = recipe(**point.settings, **SIZES[point.config.model])
        task = config.build_task()
        model = initial_model(config, task)
        if config.model == "implicit-mamba2":  # a self-map that depends little on z is a contraction
            model.get_parameter("mixers.0.in_proj.weight").data.mul_(0.1)
        return Run(Path("runs") / point.identifier, config, model, task, [])

    return make
