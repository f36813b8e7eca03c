"""The time of recipes: whose time is whose, what an error says, and that only right runs are timed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from automata.errors import InputError
from benchmarks import recipe_time
from benchmarks.machine import describe_machine

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
    repository = tmp_path / "repository"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(repository)]
    for number, commands in enumerate((["init", "--quiet", str(repository)], ["add", "."])):
        subprocess.run([*(git[:5] if number == 0 else git), *commands], check=True)
        (repository / "kept.txt").write_text("then")
    subprocess.run([*git, "commit", "--quiet", "--message", "One"], check=True)
    (repository / "kept.txt").write_text("now")
    tree = recipe_time.tree_of("HEAD", tmp_path / "tree", repository)
    assert [(path.name, path.read_text()) for path in tree.iterdir()] == [("kept.txt", "then")]


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


def test_what_is_stored_is_not_done_again_and_the_exit_code_is_of_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_time, "tree_of", lambda commit, folder: folder)
    asked: list[str] = []

    def compare(task: str, *_: object) -> dict[str, Any]:
        asked.append(task)
        return compared(1.0 if task == "parity" else 0.998)

    monkeypatch.setattr(recipe_time, "compare", compare)
    out = ["--out", str(tmp_path / "recipe_time.json")]
    with pytest.raises(SystemExit, match="1"):
        recipe_time.main(["S3", *out])
    recipe_time.main(["parity", *out])  # that S3 was not right is not asked here
    recipe_time.main(["parity", *out])
    assert asked == ["S3", "parity"]
    machine = describe_machine()
    for commit, again in ((f"{str(machine['commit']).removesuffix('-dirty')}-dirty", 0), ("0" * 40, 1)):
        # Results written into the repository make it dirty, which is no reason to train again; a commit is.
        monkeypatch.setattr(
            recipe_time, "describe_machine", lambda commit=commit: {**machine, "commit": commit}
        )
        recipe_time.main(["parity", *out])
        assert asked == ["S3", "parity"] + again * ["parity"]
    recipe_time.main(["parity", "--seed", "1", *out])
    assert asked == ["S3", "parity", "parity", "parity"]


def test_no_process_is_left_when_one_fails() -> None:
    began = time.monotonic()
    wait, fail = (([sys.executable, "-c", code], Path()) for code in ("import time; time.sleep(60)", "1 / 0"))
    with pytest.raises(
        InputError, match="training fail ended with an error, its last line: ZeroDivisionError"
    ):
        recipe_time.timed_together({"wait": wait, "fail": fail})
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"tasks": {"S3": {}}}'])
def test_a_file_of_something_else_is_refused_and_stays(
    tmp_path: Path, content: str, refuses: Refuses
) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    assert "holds no results of this command" in refuses(recipe_time.main, ["--out", str(file)])


def test_a_folder_that_is_not_there_is_refused_first(tmp_path: Path, refuses: Refuses) -> None:
    missing = tmp_path / "nowhere" / "out.json"
    assert "give a file in a folder that exists" in refuses(recipe_time.main, ["--out", str(missing)])


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["S33"], "task 'S33' is unknown; did you mean 'S3'?"),
        (["--seed", "-1"], "seed is -1; give at least 0"),
    ],
)
def test_refuses_bad_input(argv: list[str], sentence: str, refuses: Refuses) -> None:
    assert sentence in refuses(recipe_time.main, argv)
