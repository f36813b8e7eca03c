"""What is written is what is read; a record that is not of these weights or this point does not count."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import common_environment
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record, Store
from tests.paper_figures.experiments.tiny import LSTM, Length, accuracy

POINT = Point({**LSTM, "seed": 0})
MEASUREMENT = Measurement("accuracy", accuracy, Length())
IDENTITY = RunIdentity(POINT.identifier, "parity", "lstm", 178, 4, 0, "0" * 64)


def test_reads_what_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    training = Record.done(POINT, None, IDENTITY, None, 1.25)
    measured = Record.done(POINT, MEASUREMENT, IDENTITY, {"mean": 0.5, "all": [1, None]}, 0.5)
    store.write(POINT, None, training)
    store.write(POINT, MEASUREMENT, measured)
    assert store.read(POINT, None) == training
    assert store.read(POINT, MEASUREMENT) == measured
    assert measured.measurement_settings == {"length": 8}
    assert measured.config == POINT.config.as_json()
    assert store.ended(POINT, (MEASUREMENT,))


def test_arrays_and_what_json_lacks_are_written_as_json_has_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(POINT, None, Record.done(POINT, None, IDENTITY, np.array([1.0, np.nan]), 0.0))
    record = store.read(POINT, None)
    assert record is not None
    assert record.value == [1.0, None]


def test_what_was_measured_of_other_weights_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(POINT, MEASUREMENT, Record.done(POINT, MEASUREMENT, IDENTITY, 1.0, 0.0))
    assert store.read(POINT, MEASUREMENT) is None  # no training is on record
    retrained = replace(IDENTITY, weights_sha256="1" * 64)
    store.write(POINT, None, Record.done(POINT, None, retrained, None, 0.0))
    assert store.read(POINT, MEASUREMENT) is None
    assert not store.ended(POINT, (MEASUREMENT,))


def changed(**changes: Any) -> str:
    record = Record.done(POINT, None, IDENTITY, None, 0.0)
    return json.dumps({**record.__dict__, **changes})


FAULTS = {
    "half a file": (changed()[:40], "is not valid JSON"),
    "a list": ("[1]", "is no record of an experiment"),
    "an extra field": (changed(extra=1), "is no record of an experiment"),
    "a newer format": (changed(format=2), "is of format 2"),
    "another point": (changed(point="other"), "and point other"),
}


@pytest.mark.parametrize(("text", "sentence"), FAULTS.values(), ids=FAULTS)
def test_refuses_what_is_no_record_of_the_point(text: str, sentence: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.file(POINT, None).parent.mkdir(parents=True)
    store.file(POINT, None).write_text(text)
    with pytest.raises(InputError, match=sentence):
        store.read(POINT, None)


def test_environments_that_differ_are_all_told() -> None:
    record = Record.done(POINT, None, IDENTITY, None, 0.0)
    other = replace(record, environment={**record.environment, "commit": "abc"})
    found = common_environment([record, other, other])
    assert found == {**record.environment, "commit": f"{record.environment['commit']}, abc"}
