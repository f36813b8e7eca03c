"""The page of experiments holds the table that the command prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from paper_figures.registry import all_figures
from paper_figures.summary import summary

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", [[], ["--full"]], ids=["small", "full"])
def test_the_page_is_what_the_command_prints(size: list[str]) -> None:
    """In a process of its own: tests that replace a figure leave the others in another order."""
    command = [sys.executable, "-m", "paper_figures", "--summary", *size]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    assert f"\n\n{printed}\n\n" in (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


def test_every_figure_has_a_row_of_four_cells() -> None:
    rows = summary(list(all_figures().values())).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [f"`{name}`" for name in all_figures()]
    assert {len(row.split("|")) for row in rows} == {6}
