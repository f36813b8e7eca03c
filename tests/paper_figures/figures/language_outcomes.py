"""Made-up outcomes of the language models on WikiText-2, as a store would give them back."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import wikitext2, wikitext2_iterations
from paper_figures.figures.figure import Results
from paper_figures.stored_results import compact_json
from tests.paper_figures.figures import session_outcomes

FAMILIES = {"mamba2": "Mamba-2", "llama": "Llama"}
KINDS = {"explicit": "explicit", "bounded": "implicit, (4+1)", "free": "implicit, with free phase"}
SIZES = {"32 x 2": (32, 2, 2), "64 x 2": (64, 2, 2), "96 x 4": (96, 4, 1)}
"""Width, layers, and seeds."""


@cache
def template(measurement: Measurement) -> Outcome:
    """One for all: a record asks for the versions of everything, and there are many runs."""
    return session_outcomes.done(wikitext2.EXPERIMENT.points[0], measurement, {})


@cache
def ended_badly() -> Outcome:
    return session_outcomes.failed(wikitext2.EXPERIMENT.points[0])


def measured(point: Point, values: dict[Measurement, Any], parameters: int = 10) -> Outcome:
    """A run that ended well; values go through text as a store does."""
    records: dict[str, Record] = {}
    for measurement, value in values.items():
        records |= template(measurement).records
        read = json.loads(compact_json(value))
        records[measurement.name] = replace(records[measurement.name], value=read)
    records = {
        name: replace(record, run={**(record.run or {}), "parameters": parameters})
        for name, record in records.items()
    }
    return Outcome(point, records, complete=True)


def failed(point: Point) -> Outcome:
    return Outcome(point, ended_badly().records, complete=True)


def parts(point: Point) -> tuple[str, str, str, int]:
    """Family, kind, size and seed of a point."""
    settings = point.all_settings
    kind, family = settings["model"].split("-")
    return family, kind, settings["size"], settings["seed"]


def predicted(point: Point, perplexity: float, converged: float | None = None, scale: float = 1.0) -> Outcome:
    """A run whose cost follows from its size and its kind, in whole numbers."""
    _, kind, size, seed = parts(point)
    width, layers, _ = SIZES[size]
    parameters = 1000 * width * layers + 100 * (kind != "explicit")
    value = {
        "nats": 3.0,
        "perplexity": perplexity,
        "tokens": 99_999,
        "sha256": "0" * 64,
        "iterations": None if kind == "explicit" else 12.5,
        "share_converged": None if kind == "explicit" else converged,
        "validation_perplexity": perplexity + 1,
        "training_tokens": 3_276_800,
        "operations": scale * 6 * parameters * {"explicit": 1, "bounded": 3, "free": 5}[kind] * 3_276_800,
    }
    seconds = scale * (width * layers + seed) * {"explicit": 1, "bounded": 3, "free": 5}[kind]
    time = {"update_seconds": {"a": seconds / 8}, "updates": {"a": 8}, "training_seconds": seconds}
    return measured(point, {wikitext2.PERPLEXITY: value, wikitext2.TIME: time}, parameters)


def iterated(point: Point, perplexity: dict[int, float], mean: float = 12.0, **changes: Any) -> Outcome:
    """A run with perplexities by the self-iterations allowed; others are between these, or the last."""
    allowed = wikitext2_iterations.SETTINGS.allowed
    known = {count: perplexity[max(c for c in perplexity if c <= count)] for count in allowed}
    value = {
        "perplexity": known,
        "sequential_perplexity": known[max(known)],
        "share_converged": 0.99,
        "mean": mean,
        "quantiles": {"0.05": 4.0, "0.5": mean, "0.95": 2 * mean, "1.0": 256.0},
        "kinds": {
            name: {"mean": mean + place, "tokens": 10}
            for place, name in enumerate(("begins a word", "goes on in a word", "number", "punctuation"))
        },
        "fifths_of_surprise": [mean - 2 + place for place in range(5)],
        "positions": [mean] * 128,
    }
    return measured(point, {wikitext2_iterations.ITERATIONS: {**value, **changes}})


START = {"explicit": 33.0, "bounded": 31.0, "free": 30.0}


def perplexity_of(point: Point) -> float:
    """Another number for every run, lower for larger ones."""
    family, kind, size, seed = parts(point)
    width, layers, _ = SIZES[size]
    return START[kind] + 2 * (family == "llama") + 0.1 * seed - width * layers / 100


def share_of(number: int) -> float:
    """Another share of converged tokens for every run."""
    return 0.94 + 0.001 * number


def every_run_but_the_first() -> Results:
    """What is collected of all runs, the first of them failed."""
    first, *others = wikitext2.EXPERIMENT.points
    ended = [predicted(point, perplexity_of(point), share_of(n)) for n, point in enumerate(others)]
    return wikitext2.collect([failed(first), *ended])
