"""Swapped balls and small programs: a reader of the text is right, and texts have the number asked for."""

import math
import re
from pathlib import Path

import pytest
import torch

from automata.tasks.registry import registered_task
from automata.tasks.swapping_balls import SwappingBalls
from implicit.config.recipes import recipe
from implicit.runs.loading import Run
from paper_figures.measurements.answers import PuzzleSettings, puzzle_accuracy, with_number
from tests.paper_figures.measurements.reading_models import Answer, Reader, always, ends_up, printed

BALLS, PROGRAMS = "swap-balls-3", "small-programs"


def run_of(name: str, answer: Answer) -> tuple[Run, Reader]:
    task = registered_task(name)
    model = Reader(task, answer)
    return Run(Path("runs/by-hand"), recipe(name, "lstm", d_model=4), model, task, []), model


@pytest.mark.parametrize(("name", "answer"), [(BALLS, ends_up), (PROGRAMS, printed)])
def test_who_follows_the_text_is_always_right(name: str, answer: Answer) -> None:
    settings = PuzzleSettings(numbers=(1, 2, 8, 32), sequences=12, batch_size=8)
    found = puzzle_accuracy(run_of(name, answer)[0], settings)
    assert found["accuracy"] == dict.fromkeys(settings.numbers, 1.0)


def test_who_says_always_the_same_is_at_chance_and_the_baseline_is_the_most_frequent_answer() -> None:
    settings = PuzzleSettings(numbers=(16,), sequences=256)
    shares = {}
    for said in "123":
        found = puzzle_accuracy(run_of(BALLS, always(said))[0], settings)
        shares[said] = found["accuracy"][16]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)  # rounding
    assert found["baseline"][16] == max(shares.values())
    assert max(shares.values()) < 1 / 3 + 5 * math.sqrt(2 / 9 / 256)  # five deviations


@pytest.mark.parametrize("name", [BALLS, PROGRAMS])
def test_texts_have_the_number_and_are_the_same_for_all_models(name: str) -> None:
    settings = PuzzleSettings(numbers=(4,), sequences=16, batch_size=16)
    read = []
    for said in "12":
        run, model = run_of(name, always(said))
        puzzle_accuracy(run, settings)
        read.append(torch.cat(model.read))
    assert torch.equal(*read)
    task = with_number(registered_task(name), 4)
    for row in read[0]:
        text = task.text(row.tolist())
        if isinstance(task, SwappingBalls):
            assert len(re.findall(r"swap ball [123] and [123]", text)) == 4
            assert re.search(r"end up\? [123]$", text)
        else:
            assert statements(text) == 4
            assert text.count("Final x: ") == text.count("Final z: ") == 1


def statements(text: str) -> int:
    """The lines of a program but for the first values, the prints, ``else:`` and what it prints."""
    lines = [line.strip() for line in text.splitlines()]
    return sum(bool(line) and not line.startswith(("else", "print", "Final")) for line in lines) - 3
