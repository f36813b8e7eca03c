"""Run the commands of the pages as a reader would run them."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.page import EXAMPLES, SHORT, commands_in, run_module, section


@pytest.fixture
def run_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run the commands of a text in an empty folder, with the examples importable and their data there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for data in EXAMPLES.glob("*.json"):
        shutil.copy(data, tmp_path)

    def run(text: str) -> None:
        for arguments in commands_in(text):
            assert run_module([*arguments, *SHORT.get(arguments[0], "").split()]) == 0, " ".join(arguments)

    return run


@pytest.fixture
def run_page(run_commands: Callable[[str], None]) -> Callable[[str], None]:
    """Run the commands of a section of a guide."""
    return lambda title: run_commands(section(title))
