"""Fixtures that make their users slow exist under these names."""

from pathlib import Path

import pytest

from tests.slow import SHARED


@pytest.mark.parametrize(("file", "fixture"), SHARED.items())
def test_a_shared_fixture_is_there(file: str, fixture: str) -> None:
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    assert f'@pytest.fixture(scope="module")\ndef {fixture}(' in text
