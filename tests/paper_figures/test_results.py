"""Results: collected from the outcomes of an experiment, written, read, and refused where they are not."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.store import Store
from paper_figures.results import Results, compact_json

STORED = Results(
    figure="primes",
    command="python -m paper_figures primes --rerun",
    date="2026-11-20",
    environment={"python": "3.11.7", "commit": None},
    seconds=1.5,
    training_seconds=None,
    settings={"primes": {"count": 2}},
    shared={"primes": [[2, 3], [5, 7]], "text": "a, [b], c", "none": None},
    runs=[{"name": "parity-lstm-seed-0", "values": {"largest": 7}}],
)


def test_reads_what_was_written(tmp_path: Path) -> None:
    STORED.write(tmp_path / "new folder")
    assert Results.read("primes", tmp_path / "new folder") == STORED


VALUES: dict[str, Any] = {
    "numbers": [1, 2.5, -3e-17, None],
    "matrix": [[1, 2], [3, 4]],
    "text that looks like a list": '[1,\n   2, "three"]',
    "texts": ["a  b", "[ c ]"],
    "empty": [[], {}, ""],
    "nested": [{"x": [1]}, {"x": [{"y": [2, 3]}]}],
}


@pytest.mark.parametrize("value", [*VALUES.values(), VALUES], ids=[*VALUES, "all"])
def test_compact_json_holds_the_same_value(value: Any) -> None:
    assert json.loads(compact_json(value)) == value


def test_compact_json_has_a_line_a_row_and_no_numbers_that_json_lacks() -> None:
    lines = compact_json({"m": np.array([[1.0, math.inf], [math.nan, 4.0]])}).splitlines()
    assert [line.strip(" ,") for line in lines] == ["{", '"m": [', "[1.0, null]", "[null, 4.0]", "]", "}"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: content.pop("runs"), "does not hold the fields"),
        (lambda content: content.update(extra=1), "does not hold the fields"),
        (lambda content: content.update(figure="squares"), "holds figure 'squares'"),
        (lambda content: "[1, 2]", "does not hold the fields"),
        (lambda content: json.dumps(content)[:50], "is not valid JSON"),
    ],
    ids=["a missing field", "an extra field", "another figure", "a list", "half a file"],
)
def test_refuses_what_is_not_the_results_of_the_figure(
    change: Callable[[dict[str, Any]], Any], sentence: str, tmp_path: Path
) -> None:
    content = asdict(STORED)
    text = change(content)
    (tmp_path / "primes.json").write_text(text if isinstance(text, str) else json.dumps(content))
    with pytest.raises(InputError, match=sentence):
        Results.read("primes", tmp_path)


IDENTITY = RunIdentity("run", "parity", "lstm", 10, 32, 0, "0" * 64)
SEEDS = Grid({"seed": [0, 1]}, {"task": "parity", "model": "lstm"})


def collected(folder: Path, *measurements: Measurement, failed: int | None = None) -> Results:
    """Results of two runs of 120 s that measured a value 3 s each, one of which may have failed."""
    store, experiment = Store(folder), Experiment("figure", (SEEDS,), measurements)
    for point in experiment.points:
        store.write(point, None, IDENTITY, 120.0)
        for one in measurements:
            error = ValueError("no luck") if point.seed == failed else None
            value = None if error else {"accuracy": {"32": 1.0}, "converged": 0.5}
            store.write(point, one, IDENTITY, 3.0, value=value, error=error)
    return Results.collected(experiment, store.outcomes(experiment), {"proved": 7})


def measurement(name: str, keep: Any = None) -> Measurement:
    return Measurement(name, lambda run, settings: None, keep=keep)


def test_collects_values_by_name_from_all_measurements(tmp_path: Path) -> None:
    found = collected(tmp_path, measurement("all"), measurement("some", {"converged": "share"}))
    assert [run["values"] for run in found.runs] == [
        {"minutes": 2.0, "accuracy": {"32": 1.0}, "converged": 0.5, "share": 0.5}
    ] * 2
    assert (found.seconds, found.training_seconds, found.shared) == (12.0, 240.0, {"proved": 7})
    assert found.settings == {"all": {}, "some": {}}
    run = found.measured[1]
    assert (run.settings["seed"], run.status, run.at("accuracy@32")) == (1, "done", 1.0)
    assert (run.identity["parameters"], "values" in run.identity) == (10, False)
    assert found.runs_sentence() == ["2 training runs, seeds 0, 1; none failed."]


@pytest.mark.parametrize("keep", [("converged",), {"accuracy": "minutes"}])
def test_the_same_name_twice_is_refused(keep: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"second gives '(converged|minutes)' again"):
        collected(tmp_path, measurement("first", ("converged",)), measurement("second", keep))


def test_a_run_that_failed_has_no_values_and_says_why(tmp_path: Path) -> None:
    found = collected(tmp_path, measurement("all"), failed=1)
    assert [run["values"] == {} for run in found.runs] == [False, True]
    assert found.runs[1]["failure"] == "all: ValueError: no luck"
    assert [run.status for run in found.measured] == ["done", "failed"]
    assert found.runs_sentence() == ["2 training runs, seeds 0, 1; 1 failed."]


def test_environments_that_differ_are_all_told(tmp_path: Path) -> None:
    found = collected(tmp_path, measurement("all"))
    assert found.environment["torch"]
    (file, _) = tmp_path.glob("records/*/all-*.json")
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "environment": {**record["environment"], "torch": "9.9"}}))
    experiment = Experiment("figure", (SEEDS,), (measurement("all"),))
    again = Results.collected(experiment, Store(tmp_path).outcomes(experiment), {})
    assert set(str(again.environment["torch"]).split(", ")) == {"9.9", found.environment["torch"]}
