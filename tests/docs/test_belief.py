"""docs/belief.md: its tables are those that `python -m theory.belief` prints."""

import re

import numpy as np
import pytest

from tests.docs.page import page
from theory.belief import report
from theory.belief.__main__ import main
from theory.belief.report import decay_report, rescaling_report, underflow_report, worst_report

PAGE = page("belief.md")
MEASURED = {"measured", "difference", "observed", "best gain, observed", "5% off from", "off before, mean"}


def tables(text: str) -> list[list[list[str]]]:
    blocks = re.findall(r"(?:^\|.*(?:\n|\Z))+", text, flags=re.MULTILINE)
    return [[row.strip("| ").split(" | ") for row in block.splitlines()] for block in blocks]


def predicted(table: list[list[str]]) -> list[list[str]]:
    kept = [column for column, head in enumerate(table[0]) if head not in MEASURED]
    return [[row[column] for column in kept] for row in table]


def test_what_is_predicted_on_the_page_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    # two sequences are enough for columns that do not depend on them, and none has to be followed to its end
    monkeypatch.setattr(report, "exit_lengths", lambda *given: np.ones(2))
    printed = [
        decay_report(sequences=2, length=8),
        underflow_report(sequences=2),
        rescaling_report(sequences=2),
        worst_report(),
    ]
    shown = tables(PAGE)
    assert [predicted(table) for table in shown] == [predicted(t) for text in printed for t in tables(text)]
    assert len(shown) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seed", "-1"], "error: seed is -1; give a number of at least 0\n"),
        (["--seed", "x"], "error: argument --seed: invalid int value: 'x'; --help shows all flags\n"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == sentence
