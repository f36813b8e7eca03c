"""The command: draws from stored results without training, recomputes on request, refuses bad input."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from paper_figures import __main__ as command
from paper_figures.figures.figure import PaperFigure, RunRecipe
from paper_figures.registry import FIGURES
from paper_figures.stored_results import RESULTS, StoredResults

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]

COUNTS = PaperFigure(
    "counts", "Counts", (), lambda runs: {"runs": len(runs)}, lambda found: Figure(), lambda found: "Counts."
)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: RunRecipe, folder: Path) -> None:
        raise AssertionError(f"{self.name} would be trained in {folder}")

    monkeypatch.setattr(RunRecipe, "train", refuse)


@pytest.mark.usefixtures("no_training")
def test_draws_every_figure_from_the_stored_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["--out", str(tmp_path / "new" / "folder")])
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")
    }
    assert capsys.readouterr().out.count("\n") == len(FIGURES)


@pytest.mark.usefixtures("no_training")
def test_draws_the_same_bytes_twice(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        command.main(["length_generalization", "--out", str(tmp_path / folder)])
    for kind in ("png", "pdf"):
        one, other = (tmp_path / folder / f"length_generalization.{kind}" for folder in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


def test_lists_names_and_titles(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [[f.name, f.title] for f in FIGURES.values()]


def test_every_figure_has_its_own_module_and_results() -> None:
    for name, figure in FIGURES.items():
        assert figure.compute.__module__ == f"paper_figures.figures.{name}"
        stored = StoredResults.read(name)
        assert {(run["model"], run["seed"]) for run in stored.runs} == {
            (r.model, r.seed) for r in figure.runs
        }
        assert stored.command == f"python -m paper_figures {name} --rerun"
        assert stored.environment["torch"]


def test_rerun_writes_results_and_draws_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIGURES, "counts", COUNTS)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    command.main(["counts", "--rerun", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")])
    assert StoredResults.read("counts", tmp_path / "results").results == {"runs": 0}
    assert (tmp_path / "out" / "counts.png").stat().st_size > 1000
    assert not (tmp_path / "runs").exists()
    assert sorted(RESULTS.glob("counts*")) == []


BAD_INPUT = {
    "unknown name": (["jacobian"], "figure 'jacobian' is unknown; did you mean 'jacobians'?"),
    "one of several unknown": (
        ["jacobians", "lenght_generalization"],
        "did you mean 'length_generalization'?",
    ),
    "unknown flag": (["--rerum"], "flag --rerum is unknown; the nearest is --rerun"),
    "out is a file": (["--out", "{file}"], "is not a folder"),
    "out below a file": (["--out", "{file}/deeper"], "is not a folder"),
}


@pytest.mark.parametrize(("argv", "sentence"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_refuses_bad_input(argv: list[str], sentence: str, tmp_path: Path, refuses: Refuses) -> None:
    file = tmp_path / "file"
    file.write_text("taken")
    assert sentence in refuses(command.main, [part.format(file=file) for part in argv])


def test_missing_results_are_named_and_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    sentence = refuses(command.main, ["convergence", "--out", str(tmp_path / "out")])
    assert "results of figure convergence are missing" in sentence
    assert "--rerun" in sentence
