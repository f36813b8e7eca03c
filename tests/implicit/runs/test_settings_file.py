"""Files of settings: what is read, and what is refused."""

from pathlib import Path

import pytest

from automata.errors import InputError
from implicit.runs.settings_file import read_settings


def test_fields_and_sizes_by_model_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"steps": 3, "sizes": {"lstm": {"d_model": 5}}}')
    assert read_settings(tmp_path / "one.json") == {"steps": 3, "sizes": {"lstm": {"d_model": 5}}}


@pytest.mark.parametrize("text", ["[1]", '{"sizes": 3}', '{"sizes": {"lstm": 5}}'])
def test_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(InputError, match="are of another form; give an object"):
        read_settings(tmp_path / "one.json")


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"settings is .*one\.json, which is not there"):
        read_settings(tmp_path / "one.json")
    (tmp_path / "one.json").write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        read_settings(tmp_path / "one.json")
