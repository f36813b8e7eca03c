"""Files of settings: what is read, and what is refused."""

from pathlib import Path

import pytest

from automata.errors import InputError
from implicit.runs.settings_file import read_settings


def test_fields_and_sizes_by_model_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"steps": 3, "sizes": {"lstm": {"d_model": 5}}}')
    assert read_settings(tmp_path / "one.json") == {"steps": 3, "sizes": {"lstm": {"d_model": 5}}}


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    with pytest.raises(InputError, match=r"settings is .*one\.json, which is not there"):
        read_settings(file)
    for text in ("[1]", '{"sizes": 3}', '{"sizes": {"lstm": 5}}', "{"):
        file.write_text(text)
        with pytest.raises(InputError, match=r"are of another form; give an object|is not valid JSON"):
            read_settings(file)
