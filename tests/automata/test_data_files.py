"""Data outside of the package: the variable of their folder, and what is written down of a path."""

import json
from pathlib import Path

import pytest

from automata.data_files import DATA_VARIABLE, data_file
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
