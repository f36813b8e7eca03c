"""Reveals by spacing: what is measured, against a reader of the sessions' text."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.tasks.repl_language import ReplLanguage
from implicit.config.recipes import recipe
from implicit.runs.loading import Run
from paper_figures.measurements.answers import (
    SpacingSettings,
    Test,
    commands_before,
    reveals_by_spacing,
    session_task,
)
from tests.paper_figures.measurements.reading_models import Answer, Reader, executed


def wrong_at(numbers: set[int]) -> Answer:
    """What holds, and another value after so many swaps."""

    def answer(text: str) -> str | None:
        right = executed(text)
        if right is None or len(re.findall(r"\w, \w = ", text)) not in numbers:
            return right
        return str(int(right) % 3 + 1)

    return answer


def measured(wrong: set[int], **settings: Any) -> dict[str, Any]:
    config = recipe("repl-3-values-random", "lstm", d_model=4)
    task = config.build_task()
    assert isinstance(task, ReplLanguage)
    run = Run(Path("runs/by-hand"), config, Reader(task, wrong_at(wrong)), task, [])
    return reveals_by_spacing(run, SpacingSettings(sequences=6, batch_size=4, **settings))["tests"]


def test_a_reader_of_the_text_is_right_in_every_test() -> None:
    tests = measured(set(), commands=(4, 8, 16))
    for test in SpacingSettings().tests:
        assert {n: place["accuracy"] for n, place in tests[test].items()} == dict.fromkeys(tests[test], 1.0)
    assert list(tests["1"]) == list(tests["4"]) == ["4", "8", "16"]
    assert list(tests["8"]) == ["8", "16"]
    assert all(place["sessions"] == 6 for test in ("1", "4", "8") for place in tests[test].values())


def test_who_errs_after_eight_commands_is_wrong_where_the_last_reveal_is_there() -> None:
    tests = measured({8}, tests=("1", "4", "8"), commands=(4, 8, 10, 16))
    assert [tests["1"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 1, 1]
    assert [tests["4"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 0, 1]
    assert [tests["8"][n]["accuracy"] for n in ("8", "10", "16")] == [0, 0, 1]


def test_at_random_sessions_without_a_reveal_so_soon_are_left_out() -> None:
    (tests,) = measured(set(), tests=("random",), commands=(1, 64)).values()
    assert tests["64"]["sessions"] == 6
    assert "1" not in tests or tests["1"]["sessions"] < 6


def test_numbers_of_commands_are_those_of_the_text() -> None:
    task = ReplLanguage(3, commands=9, reveal_every=2, predict="values", spacing="random")
    sessions = task.sessions(20, np.random.default_rng(0))
    batch = task.batch_of(sessions, task.longest_session)
    before = commands_before(task, batch.tokens, batch.counted)
    for row in range(20):
        swaps, numbers = 0, []
        for command in sessions.trace(row).commands:
            swaps += ", " in command and "print" not in command
            if "print" in command:
                numbers.append(swaps)
        assert before[row][before[row] > 0].tolist() == numbers


@pytest.mark.parametrize("test", SpacingSettings().tests)
def test_tests_have_the_spacing_that_they_say(test: Test) -> None:
    task = session_task(ReplLanguage(3), "random" if test == "random" else int(test), 16)
    assert (task.form.spacing, task.form.reveal_every) == (
        ("random", 4) if test == "random" else ("fixed", int(test))
    )
    assert (task.commands, task.predict, task.form.variables) == (16, "values", 3)
