"""Made-up outcomes of the runs on catbAbI, as a store would give them back."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.figures import catbabi
from paper_figures.stored_results import compact_json
from tests.paper_figures.figures import session_outcomes

POINTS = catbabi.EXPERIMENT.points
SETTINGS = (
    "catbabi-answers-carried",
    "catbabi-words-carried",
    "catbabi-answers-reset",
    "catbabi-words-reset",
)
MODELS = {
    ("mamba2", 1): "explicit Mamba-2",
    ("mamba2", 2): "explicit Mamba-2, 2 layers",
    ("mamba2", 4): "explicit Mamba-2, 4 layers",
    ("implicit-mamba2", 1): "implicit Mamba-2",
    ("lstm", 1): "LSTM",
}
ASKED = {task: 90 + task for task in range(1, 21)}


def points_of(setting: str, model: str, layers: int = 1) -> list[Point]:
    return [
        point
        for point in POINTS
        if (point.settings["task"], point.settings["model"], point.settings["layers"])
        == (setting, model, layers)
    ]


def answered(point: Point, right: Callable[[int], int], converged: float | None = None) -> Outcome:
    """A run that is right on so many questions of every task."""
    tasks = {task: {"right": right(task), "asked": asked} for task, asked in ASKED.items()}
    asked = sum(ASKED.values())
    value: Any = {
        "accuracy": sum(one["right"] for one in tasks.values()) / asked,
        "asked": asked,
        "tasks": tasks,
        "carried": point.settings["task"].endswith("carried"),
        "share_converged": converged if point.settings["model"] == "implicit-mamba2" else None,
        "updates": 1200,
    }
    records = {
        name: replace(record, run={**(record.run or {}), "parameters": parameters_of(point)})
        for name, record in ended_well().records.items()
    }
    records["answers"] = replace(records["answers"], value=json.loads(compact_json(value)))
    return Outcome(point, records, complete=True)


def parameters_of(point: Point) -> int:
    """Another number for every model."""
    return 1000 * point.settings["layers"] + 100 * len(point.settings["model"])


@cache
def ended_well() -> Outcome:
    """One for all: a record asks for the versions of everything, and there are many runs."""
    return session_outcomes.done(POINTS[0], catbabi.ANSWERS, {})


def failed(point: Point) -> Outcome:
    return Outcome(point, ended_badly().records, complete=True)


@cache
def ended_badly() -> Outcome:
    return session_outcomes.failed(POINTS[0])
