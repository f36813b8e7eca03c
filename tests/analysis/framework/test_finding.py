"""One finding in terminal, report, caption, JSON and notebook; runs and outputs in at most ten lines."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from rich.text import Text

import analysis
from analysis.framework.finding import (
    Answer,
    Finding,
    Rows,
    for_caption,
    for_report,
    for_terminal,
    for_title,
    merged_rows,
)
from analysis.framework.output import json_ready
from implicit import Run, load_run, recipe

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


SMALL: dict[str, Any] = {"states": 2, "sequences": 2, "length": 6}


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


def test_a_real_answer_and_what_it_is_about() -> None:
    run = load_run("parity-small")
    answer = analysis.ask("jacobian", Run.of(run.model, "parity", name="mine"), **SMALL)
    assert repr(answer) == f"mine: {answer.sentence}."
    assert "off-diagonal mass" in answer._repr_html_()
    output = run.model.run(torch.tensor([[1, 0, 1]]))
    certificate = analysis.certify.certify(run, claim="words", length=2)
    for shown in (run, Run.of(run.model, "parity"), answer.report, output, output.solution, certificate):
        lines = repr(shown).splitlines()
        assert 1 <= len(lines) <= 10
        assert "tensor(" not in repr(shown)
    assert repr(run).splitlines()[0] == "Run parity-small: implicit-mamba2 on parity, 467 parameters"
    assert "3 of 3 tokens: the residual fell below the tolerance" in repr(output)


def test_a_configuration_shows_what_is_not_the_default_and_rebuilds_itself() -> None:
    config = recipe("parity", "lstm", steps=7, warmup_steps=1)
    shown = repr(config)
    assert "steps=7" in shown
    assert "betas" not in shown
    assert eval(shown.replace("TrainConfig(", "type(config).of(")) == config
