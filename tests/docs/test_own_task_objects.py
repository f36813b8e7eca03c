"""docs/your_own_task.md, "A file, an object, a class": each of them trains and says what it is."""

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from automata.tasks.interface import Task
from automata.tasks.specification import task_from
from implicit.runs.loading import load_run
from tests.docs.page import EXAMPLES, is_quoted, section

TITLE = "Your own task: a file, an object, a class"


def test_the_commands_of_the_page_run(run_page: Callable[[str], None]) -> None:
    assert is_quoted(TITLE, "own_tasks.py")
    run_page(TITLE)
    assert load_run("runs/light").task.target_names == ("red", "green", "yellow")
    assert load_run("runs/square", allow_code=True).config.task == {"object": "own_tasks:square"}
    assert load_run("runs/repetition", allow_code=True).task.name == "repetition"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_every_format_of_a_file_is_shown_as_it_is(file: Path) -> None:
    assert f"```json\n{file.read_text()}```" in section(TITLE)
    assert isinstance(task_from({"file": str(file)}), Task)


def following(name: str, tokens: list[str]) -> list[str]:
    """The targets of a word, by the table of the task's machine."""
    task = task_from({"file": str(EXAMPLES / name)})
    machine = task.machine()
    assert machine is not None
    numbers = np.array([[task.token_names.index(token) for token in tokens]])
    return [task.target_names[answer] for answer in machine.read(numbers)[0]]


def test_the_files_stand_for_what_the_page_says() -> None:
    assert following("traffic_light.json", ["go", "go", "wait", "wait"]) == [
        "green",
        "green",
        "yellow",
        "red",
    ]
    assert following("mod3.json", ["2", "2", "1"]) == ["2", "1", "2"]
    assert following("three_cups.json", ["swap", "swap", "rotate"]) == ["213", "123", "231"]


def test_the_class_answers_as_it_says(run_page: Callable[[str], None]) -> None:
    batch = import_module("own_tasks").Repetition().batch(5, 6, np.random.default_rng(0))
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert targets[1:] == [int(x == y) for x, y in pairwise(tokens)]
    assert not batch.counted[:, 0].any()
