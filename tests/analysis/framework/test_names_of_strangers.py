"""Names that are markup, formulas, escapes or no UTF-8 are shown as they are, wherever one is shown."""

import io
import json
import os
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.table import Table

from analysis import length_generalization
from analysis.framework.figures import new_panels, save_figure, styled
from analysis.framework.finding import Finding, Rows
from analysis.framework.output import RunIdentity
from analysis.framework.palette import Look
from analysis.framework.run_lines import draw_runs
from analysis.framework.terminal import Terminal
from analysis.report import ReportSettings, markdown, tasks_of
from automata.drawing import draw_cayley_graph, draw_dfa_or_table, draw_transition_table
from automata.errors import printable
from automata.machines.dfa import DFA
from automata.monoids.monoid import Monoid
from implicit.runs.loading import STORED_RUNS, load_run

NAMES = [
    "[/b]",
    "[red]",
    r"$\frac{x$",
    "$x",
    r"a\b^{",
    "100%",
    "a\nb",
    "\x1b[2J",
    "\udcff",
    "_base",
    "_nolegend_",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_the_terminal_shows_a_name_and_obeys_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(name, title=name)
    table.add_row(name)
    console = Terminal()
    console.print(table)
    console.print(f"{name}: done", soft_wrap=True)
    printed = capsys.readouterr().out
    assert "".join(map(printable, name.split("\n"))) in printed.replace("\n", "")
    assert printed.replace("\n", "").isprintable()


def test_a_pipe_gets_tables_in_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    Terminal().print(Table("x" * 300))
    assert "x" * 300 in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_drawings_show_a_name(name: str) -> None:
    dfa = DFA(("p", name), ("a", name), {"p": {"a": name, name: "p"}, name: {"a": "p", name: "p"}}, "p", ())
    group = Monoid([[0, 1], [1, 0]], ["1", name])
    for draw in (draw_dfa_or_table, draw_transition_table):
        figure = Figure()
        draw(dfa, figure.subplots(), {"p": name})
        figure.savefig(io.BytesIO())
    figure = Figure()
    legend = draw_cayley_graph(group, ax=figure.subplots()).get_legend()
    figure.savefig(io.BytesIO())
    assert legend is not None
    assert len(legend.get_texts()) == 1


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_figures_show_a_name_in_titles_ticks_and_legends(name: str, tmp_path: Path) -> None:
    with styled():
        figure, (axes,) = new_panels(3, 1, name)
        axes.set(title=name, xlabel=name)
        axes.set_xticks([0.0], [printable(name)])
        draw_runs(axes, [0, 1], [[0, 1]], Look("black", "o", "-"), name)
        assert len(axes.legend().get_texts()) == 1
    save_figure(figure, tmp_path, "figure", printable(name))


def test_a_user_keeps_formulas_in_a_title_of_a_drawing() -> None:
    axes = Figure().subplots()
    axes.set_title("$A_5$")
    draw_dfa_or_table(DFA(("p",), ("a",), {"p": {"a": "p"}}, "p", ()), axes)
    assert axes.title.get_parse_math()


def test_a_report_holds_no_element_of_a_name() -> None:
    run = {"model": "lstm", "task": "<b>[x](y)", "training_length": 1, "training_steps": 1, "seed": 0}
    run |= {"training_seconds": 1, "weights_sha256": "0" * 64, "parameters": 1}
    finding = Finding("<u> is right", [Rows(["<b>"], [["[x](y)"]])], warnings=["<b> fails"])
    run |= {"findings": {"length_generalization": finding.json(), "jacobian": finding.json()}}
    settings = {"settings": {"seed": 0, "sequences": 1}, "environment": {}, "parts": {}, "seconds": 1.0}
    text = markdown({"models": {"<script>": run}, "command": "analysis <in>", **settings})
    assert "<script" not in text
    assert "<b" not in text
    assert "<u" not in text
    assert "[x]" not in text
    assert "\nanalysis <in>\n" in text


def test_a_run_folder_of_any_name_is_analysed_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "_[red]$x\x1b[2J\n<script>" + os.fsdecode(b"\xff")
    folder = tmp_path / name
    shutil.copytree(STORED_RUNS / "parity-small", folder)
    out = tmp_path / "out"
    sizes = ["--sequences", "2", "--lengths", "16"]
    assert length_generalization.main([str(folder), "--out", str(out), *sizes]) == 0
    printed = capsys.readouterr()
    assert printable(name) in printed.out
    assert (printed.out + printed.err).replace("\n", "").replace("\r", "").isprintable()
    assert (out / "length_generalization.png").exists()


@pytest.mark.parametrize("name", ["r\u200cb", "\x1b[2J", os.fsdecode(b"\xff")], ids=ascii)
def test_a_report_looks_for_results_where_its_tasks_leave_them(name: str, tmp_path: Path) -> None:
    shutil.copytree(STORED_RUNS / "parity-small", tmp_path / name)
    run = load_run(tmp_path / name)
    tasks = tasks_of(run, tmp_path, ReportSettings())
    assert {task.folder.name for task in tasks} == {RunIdentity.of(run).name}


def test_a_run_and_its_task_are_told_in_visible_letters(tmp_path: Path) -> None:
    shutil.copytree(STORED_RUNS / "parity-small", tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    table = {"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}}
    config["task"] = {"automaton": {"transitions": table, "initial": "even"}, "name": "\x1b[2J\nWordProblem"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    (tmp_path / "run" / "sha256.json").unlink()
    run = load_run(tmp_path / "run")
    assert repr(run.task).isprintable()
    assert len(repr(run).splitlines()) == len(repr(load_run("parity-small")).splitlines())
    assert repr(run).replace("\n", "").isprintable()
