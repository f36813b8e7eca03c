"""Shortcuts are found where there are some, and the documentation tells those of every task."""

import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from automata.programs import question_accuracy
from implicit.language.harness import (
    TRACKING_TASKS,
    TrackingDocument,
    TrackingTask,
    measured_shortcuts,
)
from implicit.language.harness.tracking import LENGTHS

PAGE = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_after_one_step_that_step_tells_the_answer() -> None:
    assert measured_shortcuts("s3", 1, documents=400).last_step == 1


@pytest.mark.parametrize("name", TRACKING_TASKS)
def test_the_number_of_tokens_tells_nothing(name: str) -> None:
    found = measured_shortcuts(name, 8, documents=1000, tokens=lambda text: len(text.split()))
    assert abs(found.length_alone - found.chance) < 0.06  # four standard errors


def test_a_length_that_tells_the_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
        for answer in rng.integers(2, size=count).tolist():
            yield TrackingDocument("word " * (length + answer) + "?", ("no", "yes"), answer, 0, "")

    monkeypatch.setitem(TRACKING_TASKS, "mine", TrackingTask("told by its length", 2, draw))
    assert measured_shortcuts("mine", 8, documents=100).length_alone == 1


def test_a_ball_stays_where_it_is_as_often_as_the_formula_says() -> None:
    found = measured_shortcuts("balls", 2, documents=2000)
    assert abs(found.at_first - question_accuracy(5, 2)) < 0.045  # four standard errors
    assert found.at_first > 0.3


def test_long_documents_have_no_shortcut() -> None:
    for name in ("a5", "s5"):
        found = measured_shortcuts(name, 16, documents=1000)
        for accuracy in (found.majority, found.last_mentioned, found.at_first, found.last_step):
            assert abs(accuracy - found.chance) < 0.051  # four standard errors


@pytest.mark.parametrize(("name", "length"), [("parity", 4), ("ring", 4), ("programs", 4), ("repl", 8)])
def test_the_page_has_what_is_measured(name: str, length: int) -> None:
    found = measured_shortcuts(name, length)
    shares = astuple(found)
    row = f"| tracking_{name} | {length} | {' | '.join(f'{share:.2f}' for share in shares)} |"
    assert row in PAGE


def test_the_page_has_every_task_and_length() -> None:
    rows = re.findall(r"^\| tracking_(\w+) \| (\d+) \|", PAGE, flags=re.MULTILINE)
    assert rows == [(name, str(length)) for name in TRACKING_TASKS for length in LENGTHS]
