"""Made-up outcomes of the runs on sessions, hidden swaps and puzzles, as a store would give them back."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from analysis.framework.output import RunIdentity
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import hidden_swaps, puzzles
from paper_figures.figures.hidden_measured import BELIEF
from paper_figures.figures.hidden_measured import SETTINGS as BELIEFS
from paper_figures.figures.repl_training import FINAL_REVEAL
from paper_figures.figures.repl_training import SETTINGS as REVEALS
from paper_figures.figures.spacing_measured import REVEALS as SPACED
from paper_figures.figures.spacing_measured import SETTINGS as SPACINGS
from paper_figures.stored_results import compact_json

IDENTITY = RunIdentity("run", "task", "model", 10, 64, 0, "0" * 64)


def done(point: Point, measurement: Measurement, value: Any) -> Outcome:
    """A run that ended well; the value goes through text as a store does."""
    read = json.loads(compact_json(value))
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        measurement.name: Record.done(point, measurement, IDENTITY, read, 2.0),
    }
    return Outcome(point, records, complete=True)


def failed(point: Point) -> Outcome:
    record = Record.failed(point, None, ValueError("no luck"), None, 1.0)
    return Outcome(point, {"training": record}, complete=True)


def points_of(points: Iterable[Point], task: str, model: str, **settings: Any) -> list[Point]:
    """The points of a task and a model with these settings or sizes, three seeds of each."""
    return [
        point
        for point in points
        if (point.config.task, point.config.model) == (task, model)
        and all({**point.config.flat(), **point.config.sizes}[name] == settings[name] for name in settings)
    ]


def revealed(point: Point, late: float, converged: float | None = None) -> Outcome:
    """A run on sessions: right up to the 16 commands of training, and so often beyond."""
    every = {"repl-3-values-1": 1, "repl-3-values-8": 8}.get(str(point.config.task), 4)
    accuracy = {n: 1.0 if n <= 16 else late for n in REVEALS.commands if n % every == 0}
    value = {"accuracy": accuracy, "interval": {}, "share_converged": converged, "updates": 800}
    return done(point, FINAL_REVEAL, value)


def spaced(point: Point, *late: float, converged: float | None = None) -> Outcome:
    """A run tested at every spacing: right up to the 16 commands of training, and so often beyond in each."""
    settings = SPACINGS
    shares = late * len(settings.tests) if len(late) == 1 else late
    tests = {
        test: {
            str(n): {"accuracy": 1.0 if n <= 16 else share, "sessions": settings.sequences, "interval": []}
            for n in settings.commands
            if test == "random" or n % int(test) == 0
        }
        for test, share in zip(settings.tests, shares, strict=True)
    }
    value = {"tests": tests, "share_converged": converged, "updates": 800, "trained_tokens": 203}
    return done(point, SPACED, value)


def believed(point: Point, late: float, **changes: Any) -> Outcome:
    """A run on hidden swaps: near the posterior in training, and so far from it at the longest length."""
    lengths = hidden_swaps.LENGTHS
    nothing = {"low": None, "high": None, "sequences": 2, "places": 4}
    divergence = {n: 0.001 if n < lengths[-1] else late for n in lengths}
    grows = point.config.model == "transformer"
    linear = point.config.model in ("deltanet", "gated-deltanet", "gated-deltaproduct", "mamba2")
    rate = {"per_token": -0.002, "low": -0.003, "high": -0.001, "sequences": 2}
    layers = point.config.sizes["layers"]
    value = {
        "by_length": {n: {"kl": {"mean": kl, **nothing}} for n, kl in divergence.items()},
        "by_position": [],
        "by_reveal_probability": {
            str(p): {"mean": late * p, "low": None, "high": None} for p in BELIEFS.reveal_probabilities
        },
        "belief": {}
        if grows
        else {
            n: {name: {"mean": mean, **nothing} for name, mean in (("distance", 0.1), ("constant", 0.6))}
            for n in lengths
        },
        "linear": linear,
        "norms": []
        if grows
        else [{"tokens": [1, 8, 64, 512], "median": [1.0, 2.0, 3.0, 2.5], "rate_per_token": rate}] * layers,
        "exact_rate": {"per_token": -0.125, "low": -0.13, "high": -0.12, "sequences": 2},
    }
    return done(point, BELIEF, {**value, **changes})


def answered(point: Point, late: float) -> Outcome:
    """A run on puzzles: right up to the size of training, and so often beyond."""
    task = str(point.config.task)
    numbers = puzzles.SETTINGS.numbers
    accuracy = {n: 0.97 if n <= puzzles.TRAINED[task] else late for n in numbers}
    value = {"accuracy": accuracy, "interval": {}, "baseline": dict.fromkeys(numbers, 0.375)}
    return done(point, puzzles.ACCURACY, value)


def every(
    points: Sequence[Point], outcome: Callable[[Point, float], Outcome], least: float, most: float
) -> list[Outcome]:
    """Outcomes of all points, each with another value from the least to the most."""
    step = (most - least) / max(1, len(points) - 1)
    return [outcome(point, least + step * number) for number, point in enumerate(points)]
