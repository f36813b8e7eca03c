"""docs/your_own_task.md, "Your own task": its commands and its files do what the page says."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from implicit.runs.loading import load_run
from tests.docs.page import is_quoted

TITLE = "Your own task: a regular expression"


def test_the_commands_of_the_page_run(run_page: Callable[[str], None]) -> None:
    run_page(TITLE)
    task = load_run("runs/pairs").task
    assert task.token_names == ("a", "b")
    assert len(task.target_names) == 4  # nothing is open, a or b is, and the sink


def test_the_example_prints_what_it_reaches(
    run_page: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_quoted(TITLE, "regex_task.py")
    run = import_module("regex_task").main(str(tmp_path / "run"), steps=2)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("('a', 'b')")
    (measured,) = run.metrics[-1]["validation"].values()
    assert printed[1] == (
        f"length 32: {measured['accuracy']:.3f}, chance {measured['majority_baseline']:.3f}"
    )
    # After an even number of letters nothing is open: half of the targets are that one.
    assert measured["majority_baseline"] == pytest.approx(0.5, abs=1e-9)
    assert load_run(tmp_path / "run").config.task == {"regex": "(ab|ba)*", "alphabet": ["a", "b"]}
