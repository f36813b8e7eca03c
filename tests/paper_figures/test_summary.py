"""The page of experiments holds the table that the command prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paper_figures.registry import all_figures
from paper_figures.summary import summary

ROOT = Path(__file__).parents[2]


SIZES = {"small": ["--summary"], "full": ["--summary", "--full"]}
COMMANDS = f"""
import contextlib, io, json, runpy, sys

printed = {{}}
for size, sys.argv[1:] in {SIZES}.items():
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_module("paper_figures", run_name="__main__")
        except SystemExit as end:
            assert not end.code
    printed[size] = output.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """In a process of its own: tests that replace a figure leave the others in another order."""
    command = [sys.executable, "-c", COMMANDS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_the_page_is_what_the_command_prints(size: str, printed: dict[str, str]) -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert printed[size].strip()
    assert f"\n\n{printed[size].strip()}\n\n" in page


def test_every_figure_has_a_row_of_four_cells() -> None:
    rows = summary(list(all_figures().values())).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [f"`{name}`" for name in all_figures()]
    assert {len(row.split("|")) for row in rows} == {6}
