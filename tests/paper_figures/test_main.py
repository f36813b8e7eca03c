"""The command: draws from stored results without training, re-runs on request, refuses bad input."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from implicit.command_line import run_command
from implicit.runs.loading import Run
from paper_figures import __main__ as command
from paper_figures.experiments.executors import Executor
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.figures.claim import Claim, Verdict
from paper_figures.figures.figure import PaperFigure
from paper_figures.registry import FIGURES, PUBLISHED, all_figures
from paper_figures.stored_results import RESULTS, StoredResults
from paper_figures.summary import cost_of_rerun

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]

BASE = {"task": "parity", "model": "lstm", "steps": 1, "warmup_steps": 1, "batch_size": 2, "d_model": 4}


def even(run: Run, settings: None) -> int:
    if run.config.seed % 2:
        raise ValueError("odd")
    return run.config.seed


def figure(name: str, *seeds: int) -> PaperFigure:
    return PaperFigure(
        "Seeds",
        Claim("seeds are even", "nobody", lambda found: Verdict("partly", f"{found['seeds']}")),
        Experiment(name, (Grid({"seed": seeds}, BASE),), (Measurement("even", even),)),
        lambda outcomes: {"seeds": [outcome.values.get("even") for outcome in outcomes]},
        lambda found, width: Figure((width, 2)),
        lambda found: "Seeds.",
    )


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("would be trained")

    monkeypatch.setattr("paper_figures.experiments.point.train", refuse)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three figures of tiny runs, whose results go to a folder of the test."""
    monkeypatch.setitem(FIGURES, "good", figure("good", 0, 2))
    monkeypatch.setitem(FIGURES, "failing", figure("failing", 0, 1))
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def flags(folder: Path) -> list[str]:
    return ["--rerun", "--out", str(folder / "out"), "--experiments", str(folder / "experiments")]


@pytest.mark.usefixtures("no_training")
def test_draws_every_figure_from_the_stored_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["--out", str(tmp_path / "new" / "folder")])
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {
        f"{name}.{kind}" for name in all_figures() for kind in ("png", "pdf", "caption.txt")
    }
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == [*FIGURES, *PUBLISHED]
    assert [line.endswith(", numbers as published") for line in printed] == [
        name in PUBLISHED for name in all_figures()
    ]


@pytest.mark.usefixtures("no_training")
def test_draws_the_same_bytes_twice(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        command.main(["length_generalization", "--out", str(tmp_path / folder)])
    for kind in ("png", "pdf"):
        one, other = (tmp_path / folder / f"length_generalization.{kind}" for folder in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


def test_lists_claims_verdicts_and_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a line for each figure
    command.main(["--list"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].split("  ")[0] == "figure"
    for line, (name, listed) in zip(lines[1 : len(FIGURES) + 1], FIGURES.items(), strict=True):
        stored = StoredResults.read(name)
        assert line.split()[0] == name
        assert f"{listed.claim.statement} ({listed.claim.source})" in line
        assert str(listed.claim.judge(stored.results)) in line
        assert f"{len(stored.runs)} runs, " in line
    for line, (name, published) in zip(lines[len(FIGURES) + 1 :], PUBLISHED.items(), strict=True):
        told = [part.strip() for part in line.split("  ") if part.strip()]
        assert told == [
            name,
            f"{published.claim.statement} ({published.claim.source})",
            "published: as its authors print it; nothing was run here",
            "nothing to rerun",
        ]


@pytest.mark.parametrize(
    ("seconds", "training_seconds", "cost"),
    [
        (89.0, None, "1 runs, training time not stored, 1 min to measure"),
        (91.0, 5399.0, "1 runs, 90 min to train, 2 min to measure"),
        (7200.0, 5400.0, "1 runs, 1.5 h to train, 2.0 h to measure"),
    ],
)
def test_cost_of_a_rerun(seconds: float, training_seconds: float | None, cost: str) -> None:
    stored = StoredResults("f", "c", "2026-11-20", {}, seconds, training_seconds, [0], [{}], {})
    assert cost_of_rerun(stored) == cost


def test_every_figure_has_its_own_module_and_results() -> None:
    for name, found in FIGURES.items():
        assert found.collect.__module__ == f"paper_figures.figures.{name}"
        stored = StoredResults.read(name)
        points = found.experiment.points
        assert [dict(run["settings"]) for run in stored.runs] == [dict(point.settings) for point in points]
        assert [(run["name"], run["command"]) for run in stored.runs] == [(p.name, p.command) for p in points]
        assert stored.command == f"python -m paper_figures {name} --rerun"
        assert stored.environment["torch"]


def test_rerun_stores_results_and_draws_them(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main(["good", *flags(tmp_path)])
    stored = StoredResults.read("good", results)
    assert stored.results == {"seeds": [0, 2]}
    assert (tmp_path / "out" / "good.png").stat().st_size > 1000
    assert len(list((tmp_path / "experiments" / "runs").iterdir())) == 2
    assert sorted(RESULTS.glob("good*")) == []
    monkeypatch.setattr("paper_figures.experiments.point.train", None)  # nothing is trained or measured again
    command.main(["good", *flags(tmp_path)])
    assert StoredResults.read("good", results) == stored


def test_rerun_of_everything_draws_what_is_published_and_trains_the_rest(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper_figures.registry.FIGURES", {"good": FIGURES["good"]})
    command.main(flags(tmp_path))
    assert [path.name for path in results.iterdir()] == ["good.json"]
    drawn = {path.stem for path in (tmp_path / "out").glob("*.pdf")}
    assert drawn == {"good", *PUBLISHED}


@pytest.mark.usefixtures("no_training")
def test_status_tells_that_published_numbers_have_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    command.main(["published", "--status", "--experiments", str(tmp_path / "experiments")])
    printed = capsys.readouterr().out.strip()
    assert printed == "published: no runs, its numbers are as their authors print them"


def test_a_failed_run_is_told_and_stored_and_drawn(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second time it is read, not tried again
        with pytest.raises(SystemExit) as ended:
            run_command(command.main, ["failing", *flags(tmp_path)])
        assert ended.value.code == 1
        errors = capsys.readouterr().err.splitlines()
        assert errors[-1].startswith("failing: run parity-lstm-seed-1 ")
        assert "seed-1 failed (even: ValueError: odd); it stays in the results as failed" in errors[-1]
        stored = StoredResults.read("failing", results)
        assert stored.results == {"seeds": [0, None]}
        assert [run["status"] for run in stored.runs] == ["done", "failed"]
        assert (tmp_path / "out" / "failing.pdf").is_file()


def test_runs_that_did_not_end_are_told_and_nothing_is_stored(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Executor, "start", lambda self, worker, logs: [])  # all ended at once
    with pytest.raises(SystemExit) as ended:
        run_command(command.main, ["good", *flags(tmp_path), "--jobs", "2"])
    assert ended.value.code == 1
    assert "2 of 2 runs did not end: their process was ended from outside" in capsys.readouterr().err
    assert not results.exists()


def test_status_shows_every_run(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = ["failing", "--status", "--experiments", str(tmp_path / "experiments")]
    command.main(shown)
    assert capsys.readouterr().out.count("missing") == 2
    assert not (tmp_path / "experiments").exists()
    with pytest.raises(SystemExit):
        command.main(["failing", *flags(tmp_path)])
    capsys.readouterr()
    command.main(shown)
    first, second = capsys.readouterr().out.splitlines()[-3:-1]
    assert first.split()[1:] == ["done", "even"]
    assert second.rstrip().split(maxsplit=3)[1:] == ["failed", "-", "even: ValueError: odd"]


BAD_INPUT = {
    "unknown name": (["jacobian"], "figure 'jacobian' is unknown; did you mean 'jacobians'?"),
    "one of several unknown": (
        ["jacobians", "lenght_generalization", "--rerun"],
        "did you mean 'length_generalization'?",
    ),
    "unknown flag": (["--rerum"], "flag --rerum is unknown; the nearest is --rerun"),
    "out is a file": (["--out", "{file}"], "is not a folder"),
    "out below a file": (["--out", "{file}/deeper"], "is not a folder"),
    "store is a file": (["--rerun", "--out", "{file}x", "--experiments", "{file}"], "error: experiments is "),
    "no jobs": (["--rerun", "--jobs", "0"], "jobs is 0; give at least 1"),
    "jobs below zero": (["--rerun", "--jobs", "-1"], "jobs is -1; give at least 1"),
    "jobs is no number": (["--rerun", "--jobs", "two"], "jobs is 'two'; give a whole number"),
    "unknown cluster": (
        ["--rerun", "--cluster", "slrum"],
        "cluster 'slrum' is unknown; did you mean 'slurm'",
    ),
    "slurm here": (["--rerun", "--slurm", "mem_gb=3"], "cluster is local; give --cluster slurm"),
    "half a parameter": (["--rerun", "--cluster", "slurm", "--slurm", "mem_gb"], "give KEY=VALUE"),
    "jobs without rerun": (["--jobs", "2"], "--jobs is given without --rerun"),
    "no width": (["--width", "wide"], "width is 'wide'; give inches from 3 to 20"),
    "too narrow": (["--width", "1"], "width is '1'; give inches from 3 to 20"),
    "retry without rerun": (["--retry-failed"], "--retry-failed is given without --rerun"),
    "rerun of published numbers": (["published", "--rerun"], "figure published has nothing to rerun"),
    "rerun of published numbers beside others": (
        ["jacobians", "published_neighbours", "--rerun"],
        "figure published_neighbours has nothing to rerun, its numbers are as their authors print them",
    ),
}


@pytest.mark.parametrize(("argv", "sentence"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_refuses_bad_input(argv: list[str], sentence: str, tmp_path: Path, refuses: Refuses) -> None:
    file = tmp_path / "file"
    file.write_text("taken")
    assert sentence in refuses(command.main, [part.format(file=file) for part in argv])


def test_refuses_results_that_cannot_be_written(
    tmp_path: Path, results: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("taken")
    monkeypatch.setattr(command, "RESULTS", tmp_path / "file" / "results")
    assert "error: folder of the stored results is" in refuses(command.main, ["good", *flags(tmp_path)])


def test_missing_results_are_named_and_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    sentence = refuses(command.main, ["convergence", "--out", str(tmp_path / "out")])
    assert "results of figure convergence are missing" in sentence
    assert "--rerun" in sentence
