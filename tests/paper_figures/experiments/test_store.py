"""Records are read as they were written; one of other weights or another point does not count."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from paper_figures.experiments.grid import Measurement, Point
from paper_figures.experiments.store import Store
from tests.paper_figures.experiments.tiny import LSTM, Length, accuracy

POINT = Point({**LSTM, "seed": 0})
MEASUREMENT = Measurement("accuracy", accuracy, Length())
IDENTITY = RunIdentity(POINT.identifier, "parity", "lstm", 178, 4, 0, "0" * 64)


def test_reads_what_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(POINT, None, IDENTITY, 1.25)
    store.write(POINT, MEASUREMENT, IDENTITY, 0.5, value={"mean": np.float64(0.5), "all": [1, np.nan]})
    (training, measured) = (store.read(POINT, one) for one in (None, MEASUREMENT))
    assert training is not None
    assert measured is not None
    assert (training["measurement"], training["value"], training["seconds"]) == ("training", None, 1.25)
    assert measured["value"] == {"mean": 0.5, "all": [1, None]}  # as JSON has them
    assert measured["measurement_settings"] == {"length": 8}
    assert measured["config"] == POINT.config.as_json()
    assert measured["run"] == asdict(IDENTITY)
    assert store.ended(POINT, (MEASUREMENT,))


def test_what_was_measured_of_other_weights_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(POINT, MEASUREMENT, IDENTITY, 0.0, value=1.0)
    assert store.read(POINT, MEASUREMENT) is None  # no training is on record
    store.write(POINT, None, replace(IDENTITY, weights_sha256="1" * 64), 0.0)
    assert store.read(POINT, MEASUREMENT) is None
    assert not store.ended(POINT, (MEASUREMENT,))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"extra": 1}, "is no record of an experiment"),
        ({"format": 2}, "is of format 2"),
        ({"point": "other"}, "and point other"),
        ("{", "is not valid JSON"),
        ("[1]", "is no record"),
        ({"measurement": ["a"]}, "is no record"),
        ({"failure": 5}, "is no record"),
        ({"failure": "E"}, "is no record"),  # of a training that is done
        ({"seconds": "x"}, "is no record"),
        ({"environment": {"torch": [1]}}, "is no record"),
    ],
    ids=str,
)
def test_refuses_what_is_no_record_of_the_point(
    changed: dict[str, Any] | str, sentence: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    store.write(POINT, None, IDENTITY, 0.0)
    file = store.file(POINT, None)
    text = changed if isinstance(changed, str) else json.dumps({**json.loads(file.read_text()), **changed})
    file.write_text(text)
    with pytest.raises(InputError, match=sentence):
        store.read(POINT, None)
