"""The time of recipes: whose time is whose, what an error says, and that only right runs are timed."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from automata.errors import InputError
from benchmarks import recipe_time

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]
SPIN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_processor_time_is_of_each_process() -> None:
    idle, busy = (([sys.executable, "-c", code], Path()) for code in ("import time; time.sleep(0.5)", SPIN))
    took = recipe_time.timed_together({"idle": idle, "busy": busy})
    assert took["idle"]["processor_seconds"] < 0.3 <= took["busy"]["processor_seconds"]
    assert took["idle"]["wall_seconds"] >= 0.5


def test_an_error_is_told_with_its_last_line() -> None:
    wrong = ([sys.executable, "-c", "raise SystemExit('field steps is 0; give at least 1')"], Path())
    with pytest.raises(InputError, match=r"training wrong ended .* field steps is 0; give at least 1"):
        recipe_time.timed_together({"wrong": wrong})


def test_the_tree_of_a_commit_is_that_commit(tmp_path: Path) -> None:
    tree = recipe_time.tree_of("HEAD", tmp_path)
    assert (tree / "benchmarks" / "recipe_time.py").is_file()
    assert not (tree / ".git").exists()


def compared(accuracy: float) -> dict[str, Any]:
    one = {"processor_seconds": 30.0, "wall_seconds": 31.0, "updates": 5}
    found = {
        "before": {**one, "processor_seconds": 120.0},
        "today": {**one, "accuracy": accuracy},
        "asked": {"length": 512, "accuracy": 1.0},
        "correct": accuracy == 1.0,
    }
    return {**found, "ratio": 0.25} if found["correct"] else found


def test_what_is_not_right_has_no_ratio_and_makes_the_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipe_time, "tree_of", lambda commit, folder: folder)
    accuracies = {"parity": 1.0, "S3": 0.998}
    monkeypatch.setattr(recipe_time, "compare", lambda task, *_: compared(accuracies[task]))
    file = tmp_path / "recipe_time.json"
    with pytest.raises(SystemExit, match="1"):
        recipe_time.main(["parity", "S3", "--out", str(file)])
    shown = capsys.readouterr().out
    assert "0.25" in shown
    assert "not right" in shown
    stored = json.loads(file.read_bytes())
    assert "ratio" in stored["tasks"]["parity"]
    assert "ratio" not in stored["tasks"]["S3"]
    assert stored["tasks"]["S3"]["environment"]["processor"]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["S33"], "task 'S33' is unknown; did you mean 'S3'?"),
        (["--seed", "-1"], "seed is -1; give at least 0"),
    ],
)
def test_refuses_bad_input(argv: list[str], sentence: str, refuses: Refuses) -> None:
    assert sentence in refuses(recipe_time.main, argv)
