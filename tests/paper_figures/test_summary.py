"""The page of experiments holds the table that the command prints."""

from pathlib import Path

import pytest

from paper_figures import __main__ as command
from paper_figures.registry import all_figures
from paper_figures.summary import summary

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--summary"])
    printed = capsys.readouterr().out.strip()
    assert printed == summary(list(all_figures().values()))
    assert f"\n\n{printed}\n\n" in PAGE.read_text(encoding="utf-8")


def test_every_figure_has_a_row_of_four_cells() -> None:
    rows = summary(list(all_figures().values())).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [f"`{name}`" for name in all_figures()]
    assert {len(row.split("|")) for row in rows} == {6}
