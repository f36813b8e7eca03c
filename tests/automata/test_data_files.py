"""Files of users: the variable of their folder, what is no regular file, ambiguous JSON."""

import json
import os
from pathlib import Path

import pytest

from automata.data_files import DATA_VARIABLE, data_file, read_file, strict_json
from automata.errors import InputError
from automata.tasks.specification import task_from
from implicit.config.recipes import recipe

BELOW = f"${DATA_VARIABLE}/some/text.txt"


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text below the data folder."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    path = tmp_path / "some" / "text.txt"
    path.parent.mkdir()
    path.write_text("abc" * 100, encoding="utf-8")
    return path


def test_a_path_below_the_variable_is_found_and_kept_as_it_was_given(text: Path) -> None:
    task = task_from({"text": BELOW})
    specification = task.specification()
    assert isinstance(specification, dict)
    assert data_file(BELOW) == text
    assert specification["text"] == BELOW
    assert task_from({"text": str(text)}).specification()["text"] == str(text)  # type: ignore[index]
    again = task_from(json.loads(json.dumps(specification)))
    assert again.specification() == specification


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(InputError, match=f"{DATA_VARIABLE}, which is not set; set it"):
        task_from({"text": BELOW})


def test_a_configuration_needs_no_data_where_a_digest_says_which(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = task_from({"text": BELOW}).specification()
    with_data = recipe(specification, "lstm", carried_share=0.5)
    monkeypatch.delenv(DATA_VARIABLE)
    without = recipe(specification, "lstm", carried_share=0.5)
    assert without == with_data
    with pytest.raises(InputError, match=DATA_VARIABLE):
        without.build_task()
    with pytest.raises(InputError, match=DATA_VARIABLE):
        recipe(specification, "lstm")  # whose default share depends on the task
    with pytest.raises(InputError, match="field of a task 'units' is unknown"):
        recipe({**specification, "units": "bytes"}, "lstm", carried_share=0.5)  # type: ignore[dict-item]


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes by path")
@pytest.mark.parametrize("field", ["file", "text", "catbabi"])
@pytest.mark.parametrize("kind", ["device", "pipe", "link", "sparse"])
def test_a_task_is_read_from_regular_files_of_a_stated_size(tmp_path: Path, field: str, kind: str) -> None:
    path = tmp_path / "task.json"
    match kind:
        case "device":
            path = Path("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/dev/zero")
        case "sparse":
            path.touch()
            os.truncate(path, 2**40)
    with pytest.raises(InputError, match="give a file of at most"):
        task_from({field: str(path)})


def test_a_text_that_the_memory_does_not_hold_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_bytes(b"a" * 10**5)
    task_from({"text": str(tmp_path / "text")})
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 8 * 10**5})())
    with pytest.raises(InputError, match=r"what .*text holds needs at least"):
        task_from({"text": str(tmp_path / "text")})


def test_the_largest_size_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "three").write_bytes(b"abc")
    assert read_file(tmp_path / "three", most=3) == b"abc"
    with pytest.raises(InputError, match="too large"):
        read_file(tmp_path / "three", most=2)


AMBIGUOUS = {
    "key twice": b'{"a": 1, "a": 1}',
    "inner key twice": b'[{"a": {"b": 1, "c": 2, "b": 1}}]',
    "key twice by an escape": rb'{"a": 1, "\u0061": 1}',
    "NaN": b"[NaN]",
    "infinity": b"-Infinity",
    "infinity by size": b"1e999",
    "digits": b"1" * 5000,
    "half of a pair": rb'["\uD800"]',
    "deep": b"[" * 40 + b"]" * 40,
    "deeper": b'{"a":' * 100_000,
    "not UTF-8": b'"\xff"',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "nothing": b"",
    "blank lines": b"\n\n",
    "two values": b"{} {}",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_json_of_more_than_one_meaning_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^it .*; correct it there$"):
        strict_json(AMBIGUOUS[name], "it")


def test_json_of_one_meaning_is_read() -> None:
    text = '\ufeff\n\n{"a": [null, 1e308, "\\ud83d\\ude00", {"a": "\\\\ud800"}]}\n\n'
    assert strict_json(text.encode(), "it") == {"a": [None, 1e308, "😀", {"a": "\\ud800"}]}
