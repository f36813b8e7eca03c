"""Points with untrained models, small enough for every measurement to take a moment."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.framework.output import RunIdentity
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.stored_results import compact_json

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


@pytest.fixture(scope="session")
def measured(untrained: Callable[[Point], Run]) -> Callable[..., list[Outcome]]:
    """Measure untrained models of some points, and let the value go through text as a store does."""

    def outcomes(
        points: list[Point], measurement: Measurement, failed: tuple[Point, ...] = ()
    ) -> list[Outcome]:
        found = []
        for point in points:
            run = untrained(point)
            identity = RunIdentity.of(run)
            records = {"training": Record.done(point, None, identity, None, 1.0)}
            if point in failed:
                records = {"training": Record.failed(point, None, ValueError("no luck"), None, 1.0)}
            else:
                value = json.loads(compact_json(measurement.measure(run, measurement.settings)))
                records[measurement.name] = Record.done(point, measurement, identity, value, 2.0)
            found.append(Outcome(point, records, complete=True))
        return found

    return outcomes
