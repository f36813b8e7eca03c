"""The command: draws from stored results without training, re-runs on request, refuses bad input."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from automata.errors import printable
from implicit.command_line import run_command
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run
from paper_figures import __main__ as command
from paper_figures.claims import Claim, Verdict
from paper_figures.experiments.grid import Grid, Measurement
from paper_figures.experiments.store import Store
from paper_figures.figure import Figure
from paper_figures.panels import Marks
from paper_figures.registry import all_figures
from paper_figures.results import RESULTS, Results
from tests.conftest import Refuses

BASE = {"task": "parity", "model": "lstm", "steps": 1, "warmup_steps": 1, "batch_size": 2, "d_model": 4}


def even(run: Run, settings: None) -> dict[str, int]:
    if run.config.seed % 2:
        raise ValueError("odd")
    return {"seed": run.config.seed, "steps": run.config.steps}


def figure(name: str, *seeds: int) -> Figure:
    return Figure(
        title="Seeds",
        section="Training",
        panels=[Marks("seed")],
        claim=Claim("seeds are even", "nobody", lambda rows: Verdict("partly", f"{rows[0].of} runs")),
        runs=(Grid({"seed": seeds}, BASE),),
        measure=(Measurement("even", even),),
        name=name,
    )


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("would be trained")

    monkeypatch.setattr("paper_figures.experiments.grid.train", refuse)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two figures of tiny runs beside a published one, whose results go to a folder of the test."""
    figures = {"good": figure("good", 0, 2), "failing": figure("failing", 0, 1)}
    figures["published"] = all_figures()["published"]
    monkeypatch.setattr("paper_figures.registry.all_figures", lambda: figures)
    monkeypatch.setattr(command, "all_figures", lambda: figures)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("paper_figures.figure.CAPTIONS", tmp_path)
    for name in figures:
        (tmp_path / f"{name}.md").write_text("Seeds.")
    return tmp_path / "results"


def flags(folder: Path) -> list[str]:
    return ["--rerun", "--out", str(folder / "out"), "--experiments", str(folder / "experiments")]


@pytest.mark.usefixtures("no_training")
def test_draws_figures_from_the_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["published", "recipes"]
    command.main([*names, "--out", str(tmp_path / "new" / "folder")])
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("png", "pdf", "caption.txt")
    }
    printed = [line for line in capsys.readouterr().out.splitlines() if ".png" in line]
    assert [line.split(":")[0] for line in printed] == names
    assert [line.endswith(", numbers as published") for line in printed] == [True, False]


def test_rerun_stores_results_and_draws_them(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main(["good", *flags(tmp_path)])
    stored = Results.read("good", results)
    assert [run.values["seed"] for run in stored.measured] == [0, 2]
    assert (tmp_path / "out" / "good.png").stat().st_size > 1000
    assert len(list((tmp_path / "experiments" / "runs").iterdir())) == 2
    assert sorted(RESULTS.glob("good*")) == []
    monkeypatch.setattr("paper_figures.experiments.grid.train", None)  # nothing is trained or measured again
    command.main(["good", *flags(tmp_path)])
    assert Results.read("good", results) == stored


def test_settings_replace_those_of_all_runs_and_their_results_go_to_the_store(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"steps": 2, "sizes": {"lstm": {"d_model": 5}, "gru": {"d_model": 7}}}')
    command.main(["good", *flags(tmp_path), "--settings", str(file)])
    stored = Results.read("good", tmp_path / "experiments" / "results")
    assert [run.values["steps"] for run in stored.measured] == [2, 2]
    assert all("--steps 2" in run["command"] and "--d-model 5" in run["command"] for run in stored.runs)
    assert not results.exists()
    capsys.readouterr()
    shown = ["good", "--status", "--experiments", str(tmp_path / "experiments")]
    command.main([*shown, "--settings", str(file)])
    command.main(shown)
    other, own = capsys.readouterr().out.split("good: 2 runs")[1:]
    assert (other.count("done"), own.count("missing")) == (2, 2)


@pytest.mark.usefixtures("results")
def test_settings_name_code_only_if_allowed(
    tmp_path: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"code_of_{tmp_path.name}"
    (tmp_path / f"{code}.py").write_text("from automata import make_task\n\ntask = make_task('parity')\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"task": f"{code}:task"}))
    shown = ["good", "--status", "--experiments", str(tmp_path / "store"), "--settings", str(file)]
    assert f"names code, {code}:task" in refuses(command.main, shown)
    assert code not in sys.modules
    command.main([*shown, "--allow-code"])
    assert code in sys.modules


def test_of_all_figures_a_failed_run_is_told_and_stored_and_drawn(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second time it is read, not tried again
        with pytest.raises(SystemExit) as ended:
            run_command(command.main, flags(tmp_path))
        assert ended.value.code == 1
        errors = capsys.readouterr().err.splitlines()
        assert errors[-1].startswith("failing: run parity-lstm-seed-1 ")
        assert "seed-1 failed (even: ValueError: odd); it stays in the results as failed" in errors[-1]
        stored = Results.read("failing", results)
        assert [run.values.get("seed") for run in stored.measured] == [0, None]
        assert [run["status"] for run in stored.runs] == ["done", "failed"]
        assert sorted(path.name for path in results.iterdir()) == ["failing.json", "good.json"]
        assert {path.stem for path in (tmp_path / "out").glob("*.pdf")} == {"good", "failing", "published"}


def test_runs_that_did_not_end_are_told_and_nothing_is_stored(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("paper_figures.experiments.runner.Work.__call__", lambda self: None)
    with pytest.raises(SystemExit) as ended:
        run_command(command.main, ["good", *flags(tmp_path)])
    assert ended.value.code == 1
    assert "2 of 2 runs did not end: their process was ended from outside" in capsys.readouterr().err
    assert not results.exists()


def test_status_shows_every_run_and_records_of_strangers_as_they_are(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = ["failing", "--status", "--experiments", str(tmp_path / "experiments")]
    command.main(shown)
    assert capsys.readouterr().out.count("missing") == 2
    assert not (tmp_path / "experiments").exists()
    point = figure("failing", 0, 1).experiment.points[0]
    begun = Store(tmp_path / "experiments").run_folder(point)
    RunFolder(begun).begin(point.config)
    command.main(shown)
    shown_now = capsys.readouterr().out
    assert (shown_now.count("begun"), shown_now.count("missing")) == (1, 1)
    shutil.rmtree(begun)
    with pytest.raises(SystemExit):
        command.main(["failing", *flags(tmp_path)])
    capsys.readouterr()
    command.main(shown)
    first, second = capsys.readouterr().out.splitlines()[-3:-1]
    assert first.split()[1:] == ["done", "even"]
    assert second.rstrip().split(maxsplit=3)[1:] == ["failed", "-", "even: ValueError: odd"]
    evil = "\x1b[31mEVIL\u202e[/b]"
    for file in (tmp_path / "experiments" / "records").glob("*/even-*.json"):
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "date": f"9{evil}", "failure": record["failure"] and evil}))
    command.main(shown)
    with pytest.raises(SystemExit):
        command.main(["failing", *flags(tmp_path)])
    out, err = capsys.readouterr()
    assert (out.count(printable(evil)), err.count(printable(evil))) == (2, 1)
    assert (out + err).replace("\n", "").isprintable()


BAD_INPUT = {
    "unknown name": (["jacobian"], "figure 'jacobian' is unknown; did you mean 'jacobians'?"),
    "unknown flag": (["--rerum"], "flag --rerum is unknown; the nearest is --rerun"),
    "out is a file": (["--out", "{file}"], "is not a folder"),
    "store is a file": (["--rerun", "--out", "{file}x", "--experiments", "{file}"], "error: experiments is "),
    "jobs is no number": (["--rerun", "--jobs", "two"], "jobs is 'two'; give a whole number"),
    "jobs without rerun": (["--jobs", "2"], "--jobs is given without --rerun"),
    "no width": (["--width", "wide"], "width is 'wide'; give inches from 3 to 20"),
    "retry without rerun": (["--retry-failed"], "--retry-failed is given without --rerun"),
    "settings without rerun": (["--settings", "{file}"], "--settings is given without --rerun"),
    "settings that are not there": (["--rerun", "--settings", "{file}x"], "which is not there"),
    "settings that are no JSON": (["--rerun", "--settings", "{file}"], "is not valid JSON"),
    "rerun of published numbers": (["published", "--rerun"], "figure published has nothing to rerun"),
}


@pytest.mark.parametrize(("argv", "sentence"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_refuses_bad_input(argv: list[str], sentence: str, tmp_path: Path, refuses: Refuses) -> None:
    file = tmp_path / "file"
    file.write_text("taken")
    assert sentence in refuses(command.main, [part.format(file=file) for part in argv])


@pytest.mark.parametrize("name", ["runs", "records", "logs", "results"])
def test_a_store_that_leads_elsewhere_is_refused(
    name: str, tmp_path: Path, results: Path, refuses: Refuses
) -> None:
    for folder in ("elsewhere", "experiments"):
        (tmp_path / folder).mkdir()
    (tmp_path / "experiments" / name).symlink_to(tmp_path / "elsewhere")
    said = refuses(command.main, ["good", *flags(tmp_path)])
    assert f"{name} is a link to" in said
    assert "--experiments" in said
    assert not list((tmp_path / "elsewhere").iterdir())


def test_refuses_results_that_cannot_be_written(
    tmp_path: Path, results: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("taken")
    monkeypatch.setattr(command, "RESULTS", tmp_path / "file" / "results")
    assert "error: folder of the stored results is" in refuses(command.main, ["good", *flags(tmp_path)])


@pytest.mark.parametrize("planted", ["results/good.json", "out/good.pdf"])
def test_a_folder_in_the_place_of_a_file_is_told_before_the_work(
    planted: str, tmp_path: Path, results: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "carry_out", None)
    (tmp_path / planted).mkdir(parents=True)
    assert "is a folder; move it away" in refuses(command.main, ["good", *flags(tmp_path)])


def test_missing_results_are_named_and_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    sentence = refuses(command.main, ["convergence", "--out", str(tmp_path / "out")])
    assert "results of figure convergence are missing" in sentence
