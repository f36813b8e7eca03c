"""Stored results: what is written is what is read, and what cannot be a figure's results is refused."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from paper_figures.stored_results import StoredResults, compact_json

STORED = StoredResults(
    figure="primes",
    command="python -m paper_figures primes --rerun",
    date="2026-11-20",
    environment={"python": "3.11.7", "commit": None},
    seconds=1.5,
    training_seconds=None,
    seeds=[0, 3],
    runs=[{"name": "parity-lstm-seed-0", "seed": 0}],
    results={"primes": [[2, 3], [5, 7]], "text": "a, [b], c", "none": None},
)


def test_reads_what_was_written(tmp_path: Path) -> None:
    STORED.write(tmp_path / "new folder")
    assert StoredResults.read("primes", tmp_path / "new folder") == STORED


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


def broken(name: str) -> str:
    content = asdict(STORED)
    if name == "a missing field":
        del content["seeds"]
    elif name == "an extra field":
        content["extra"] = 1
    elif name == "another figure":
        content["figure"] = "squares"
    elif name == "a list":
        return "[1, 2]"
    elif name == "half a file":
        return json.dumps(content)[:50]
    return json.dumps(content)


FAULTS = {
    "a missing field": "does not hold the fields",
    "an extra field": "does not hold the fields",
    "another figure": "holds figure 'squares'",
    "a list": "does not hold the fields",
    "half a file": "is not valid JSON",
}


@pytest.mark.parametrize(("name", "sentence"), FAULTS.items(), ids=FAULTS)
def test_refuses_what_is_not_the_results_of_the_figure(name: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "primes.json").write_text(broken(name))
    with pytest.raises(InputError, match=sentence):
        StoredResults.read("primes", tmp_path)
