"""One finding in terminal, report, caption, JSON and notebook; runs and outputs in at most ten lines."""

import json
from dataclasses import dataclass

import pytest
from rich.text import Text

from analysis.framework.finding import (
    Answer,
    Finding,
    Rows,
    for_report,
    for_terminal,
    for_title,
    merged_rows,
)
from analysis.framework.output import json_ready
from implicit import recipe

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


def test_a_title_is_red_where_something_does_not_hold() -> None:
    assert for_title("run", FAILS)["color"] != for_title("run", HOLDS)["color"]


@dataclass(frozen=True)
class Several(Answer):
    """Findings of many runs."""

    count: int

    @property
    def findings(self) -> dict[str, Finding]:
        rows = [Rows(["token", "a < b", "c"], [["0", "<b>", "1"]], title="T", note="n & m")]
        return {f"run-{n}": Finding(f"found {n}", rows, warnings=["beware"]) for n in range(self.count)}


@pytest.mark.parametrize(("count", "lines"), [(1, 2), (5, 10), (6, 10), (40, 10)])
def test_an_answer_is_its_sentences_in_at_most_ten_lines(count: int, lines: int) -> None:
    shown = repr(Several(count)).splitlines()
    assert shown[:2] == ["run-0: found 0.", "run-0: beware."]
    assert len(shown) == lines
    assert (shown[-1] == "…") == (count > 5)


def test_a_notebook_shows_sentences_and_tables_and_nothing_of_them_is_html() -> None:
    html = Several(2)._repr_html_()
    assert html.startswith("<p>run-0: found 0.</p><p>run-0: beware.</p>")
    assert "<caption>T</caption>" in html
    assert "<tr><th>run</th><th>token</th><th>a &lt; b</th><th>c</th></tr>" in html
    assert "<tr><td>run-1</td><td>0</td><td>&lt;b&gt;</td><td>1</td></tr>" in html
    assert "<p>n &amp; m</p>" in html


def test_a_configuration_shows_what_is_not_the_default_and_rebuilds_itself() -> None:
    config = recipe("parity", "lstm", steps=7, warmup_steps=1)
    shown = repr(config)
    assert "steps=7" in shown
    assert "betas" not in shown
    assert eval(shown.replace("TrainConfig(", "type(config).of(")) == config
