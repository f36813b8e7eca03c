"""One finding in terminal, report, caption and JSON: every part of it, and in red what does not hold."""

import json

from rich.text import Text

from analysis.framework.finding import (
    Finding,
    Rows,
    for_caption,
    for_report,
    for_terminal,
    for_title,
    merged_rows,
)
from analysis.framework.output import json_ready

FAILS = Finding(
    "the modes differ at 2 tokens; and more",
    [Rows(["mode", "share", "a|b"], [["one", "1%", "2"]], title="shares", note="share: of tokens.")],
    limits="Measured.",
    warnings=["3 tokens did not converge"],
    holds=False,
)
HOLDS = Finding("the modes agree", [Rows(["quantity", "value"], [["norm", "1"]])], limits="Measured.")


def test_the_terminal_shows_in_red_what_does_not_hold_and_limits_once() -> None:
    shown = list(for_terminal({"a": FAILS, "b": HOLDS}))
    styles = {str(line): str(line.style) for line in shown if isinstance(line, Text)}
    assert styles == {
        "a: the modes differ at 2 tokens; and more.": "bold red",
        "a: 3 tokens did not converge.": "bold red",
        "b: the modes agree.": "",
    }
    assert [line for line in shown if isinstance(line, str)] == ["share: of tokens.", "Measured."]


def test_runs_stand_below_each_other_and_quantities_beside_each_other() -> None:
    other = Finding("", [Rows(["quantity", "value"], [["norm", "2"], ["mass", "3"]])])
    (table,) = merged_rows({"a": HOLDS, "b": other})
    assert table.columns == ["quantity", "a", "b"]
    assert table.rows == [["norm", "1", "2"], ["mass", "–", "3"]]
    (table,) = merged_rows({"a": FAILS, "b": FAILS})
    assert table.columns == ["run", "mode", "share", "a|b"]
    assert [row[0] for row in table.rows] == ["a", "b"]


def test_a_report_has_the_sentence_in_red_and_a_table_whose_bars_are_escaped() -> None:
    sentence, title, table, note = for_report(FAILS)
    assert "🔴 **The modes differ at 2 tokens; and more.**" in sentence
    assert (title, note) == ("Shares:", "share: of tokens.")
    assert table.splitlines() == ["| mode | share | a\\|b |", "| --- | --- | --- |", "| one | 1% | 2 |"]


def test_json_gives_the_finding_back() -> None:
    stored = json.loads(json.dumps(json_ready(FAILS.json())))
    assert json_ready(Finding.from_json(stored).json()) == stored
    assert for_report(Finding.from_json(stored)) == for_report(FAILS)


def test_a_caption_of_several_runs_leaves_the_sentences_to_the_table() -> None:
    assert for_caption("Shares.", {"a": HOLDS}) == "Shares. Found: the modes agree.\n\nLimits: Measured."
    assert for_caption("Shares.", {"a": HOLDS, "b": FAILS}) == "Shares.\n\nLimits: Measured."


def test_a_long_sentence_is_cut_between_its_parts_in_a_title() -> None:
    parts = ["a" * 150, "b" * 60, "c" * 60]
    assert for_title("run", Finding("; ".join(parts)))["title"] == f"run\n{parts[0]}; {parts[1]}"
    assert for_title("run", FAILS)["color"] != for_title("run", HOLDS)["color"]
