"""Runs, outputs and answers are shown in at most ten lines, and answers as tables in a notebook."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import analysis
from analysis.framework.finding import Answer, Finding, Rows
from implicit import Run, load_run, recipe

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
