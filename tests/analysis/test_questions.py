"""The table of questions: what follows from a row is there, and a new row needs nothing else."""

import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from rich.console import Console

import analysis
from analysis import __main__ as listing
from analysis import questions, report
from analysis.certify import PROOFS
from analysis.framework.analysis import Analysis, Comparison, EachRunAnalysis, ReportSection, RunAnalysis
from analysis.framework.finding import Finding, Rows
from analysis.framework.needs import FIXED_POINTS, Need
from analysis.framework.settings import SampleSettings
from automata.tasks.specification import task_from
from implicit.models.registry import build_model
from implicit.runs.loading import Run

NO_COMMANDS = {"framework", "certificates", "questions", "__main__"}


class Count:
    """The answer of the new question of these tests: the number of tokens it would look at."""

    def __init__(self, settings: SampleSettings, runs: Sequence[Run] = ()) -> None:
        self.count = settings.sequences * settings.length
        self.runs = [run.path.name for run in runs]
        self.finding = Finding(
            f"counted: {self.count}",
            [Rows(["tokens"], [[str(self.count)]])],
            limits="Counting is exact.",
            warnings=[f"has {self.count} tokens"],
            verdict=str(self.count),
        )
        self.findings = dict.fromkeys(self.runs, self.finding)

    def numbers(self) -> dict[str, Any]:
        found = {"count": self.count}
        return dict.fromkeys(self.runs, found) if self.runs else found


SECTION = ReportSection(
    title="tokens",
    content=lambda _run, found: {"tokens": found["count"]},
    settings={"sequences": "sequences", "length": "states_length"},
)
COMMON: dict[str, Any] = {
    "name": "count",
    "question": "How many?",
    "description": "Count.",
    "settings": SampleSettings,
    "draw": lambda _found, width: Figure((width, 1)),
    "shows": "A count.",
}


def of_a_run(kind: Any = RunAnalysis, **more: Any) -> RunAnalysis[Any, Any]:
    return kind(**{**COMMON, "measure": lambda _run, settings: Count(settings), **more})


def of_runs(**more: Any) -> Comparison[Any, Any]:
    return Comparison(**{**COMMON, "compare": lambda runs, settings: Count(settings, runs), **more})


def test_every_module_with_a_command_is_in_the_table_or_named_beside_it() -> None:
    found = {module.name for module in iter_modules(analysis.__path__)} - NO_COMMANDS
    assert found == {question.name for question in questions.QUESTIONS} | set(listing.OTHERS)
    assert len(questions.QUESTIONS) == len({question.name for question in questions.QUESTIONS})


@pytest.mark.parametrize("question", questions.QUESTIONS, ids=lambda question: question.name)
def test_a_row_is_the_command_of_its_module(question: Analysis[Any, Any]) -> None:
    module = import_module(f"analysis.{question.name}")
    assert module.ANALYSIS is question
    assert module.main == question.main


@pytest.mark.parametrize("question", questions.reported_questions(), ids=lambda question: question.name)
def test_a_section_follows_settings_that_exist(question: Analysis[Any, Any]) -> None:
    section = questions.section_of(question)
    assert set(section.settings) <= set(question.settings.model_fields)
    assert set(section.settings.values()) <= set(report.ReportSettings.model_fields)
    # the test sequences are those of the report's seed
    assert ("seed" in question.settings.model_fields) == (section.settings.get("seed") == "seed")


def test_every_setting_of_the_report_is_followed_by_an_analysis() -> None:
    sections = [questions.section_of(question) for question in questions.reported_questions()]
    followed = {shared for section in sections for shared in section.settings.values()}
    assert followed == set(report.ReportSettings.model_fields)


def test_the_list_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.main([]) == 0
    printed = capsys.readouterr().out
    for question in questions.QUESTIONS:
        old = question.name in listing.OLD_NAMES  # rows of certify tell their claims
        row = rf"\n{question.name} RUN(…| --claim \w+)? +{re.escape(question.question)}\n"
        assert bool(re.search(row, printed)) == (not old)
    for claim, (proof, *_) in PROOFS.items():
        assert re.search(rf"\ncertify RUN --claim {claim} +{re.escape(proof.question)}\n", printed)
    assert all(name in printed for name in listing.OTHERS)


def test_what_a_question_needs_is_asked_before_any_work(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("the run was looked at")

    explicit = str(make_run("mamba2").path)
    before = sorted(tmp_path.rglob("*"))
    for question in (of_a_run(needs=FIXED_POINTS, measure=never), of_runs(needs=FIXED_POINTS, compare=never)):
        assert question.main([explicit, "--out", str(tmp_path / "out")]) == 2
        assert "the model of run mamba2 is mamba2, which has no fixed points; give" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_where_the_results_of_several_runs_go(make_run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [make_run("lstm"), make_run("mamba2")]
    paths = [str(run.path) for run in runs]
    assert of_a_run(EachRunAnalysis).main(paths) == 0
    for run in runs:
        content = json.loads((run.path / "analysis" / "count" / "count.json").read_text())
        assert content["run"]["name"] == run.path.name
        assert content["result"] == {"count": 16 * 64}
    assert of_a_run(EachRunAnalysis).main([*paths, "--out", "each", "--length", "2"]) == 0
    assert json.loads(Path("each/lstm/count.json").read_text())["result"] == {"count": 32}
    assert of_a_run(EachRunAnalysis).main([paths[0], "--out", "one"]) == 0
    assert Path("one/count.json").is_file()
    assert of_runs().main(paths) == 0
    together = json.loads(Path("out/count/count.json").read_text())
    assert [run["name"] for run in together["runs"]] == ["lstm", "mamba2"]
    assert together["result"] == {"lstm": {"count": 1024}, "mamba2": {"count": 1024}}
    assert of_runs().main(paths[:1]) == 0
    assert (runs[0].path / "analysis" / "count" / "count.pdf").is_file()


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_a_new_row_is_all_that_the_report_needs(
    make_run: Any, tmp_path: Path, monkeypatch: Any, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    only_lstm = Need(lambda model: model.name == "lstm", "which is no lstm", "give an lstm")
    more: dict[str, Any] = {"section": SECTION, "needs": only_lstm}
    added = of_a_run(**more) if kind == "run" else of_runs(**more)
    monkeypatch.setattr(questions, "QUESTIONS", (added,))
    runs, folder = [make_run("lstm"), make_run("mamba2")], tmp_path / "report"
    settings = report.ReportSettings(sequences=3, states_length=5)
    tasks = [task for run in runs for task in report.tasks_of(run, folder, settings)]
    tasks += report.comparison_tasks(runs, folder, settings)
    assert [task.label for task in tasks] == ["count of lstm"]
    assert tasks[0].perform() > 0
    content = report.collect(runs, folder, settings, 1.0, {}, "command")
    assert content["models"]["lstm"]["tokens"] == 3 * 5
    assert "tokens" not in content["models"]["mamba2"]
    text = report.markdown(content)
    assert "🔴 **lstm: has 15 tokens.**" in text
    sizes = [content["models"][name]["parameters"] for name in ("lstm", "mamba2")]
    rows = f"| lstm | {sizes[0]} | 15 |\n| mamba2 | {sizes[1]} | – |"
    assert f"| run | parameters | tokens |\n| --- | --- | --- |\n{rows}" in text
    assert ("Counted: 15." in text) == (kind == "run")
    assert ("![How many?](analysis/count.png)" in text) == (kind != "run")
    assert "- **count**: Counting is exact.\n- Each figure" in text
    report.print_report(content, folder, Console(width=200))
    assert "lstm: counted: 15\n  has 15 tokens\nmamba2: no analysis has" in capsys.readouterr().out


def test_sentences_say_what_is_unknown_where_every_pair_of_words_ends_alike() -> None:
    """A letter that resets leaves no two states apart after some tokens."""
    table = {
        "idle": ("one", "idle"),
        "one": ("one", "two"),
        "two": ("open", "idle"),
        "open": ("open", "open"),
    }
    rows = {state: dict(zip("12r", (*after, "idle"), strict=True)) for state, after in table.items()}
    task = task_from({"transitions": rows, "initial": "idle"})
    torch.manual_seed(0)
    model = build_model("lstm", {"d_model": 4}, task)
    errors: Any = analysis.ask("error_control", model, task=task, sequences=8, pairs=8)
    mechanism: Any = analysis.ask("mechanism", model, task=task, sequences=8, pairs=8)
    assert "is not measured: within 32 tokens the automaton itself leads all 8 pairs of" in errors.sentence
    assert all("nan" not in run.sentence for run in mechanism.runs)
