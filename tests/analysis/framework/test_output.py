"""Files of results: what is in them, whole at every moment, and never those of another run in their place."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis import convergence, demo, jacobian, length_generalization, report
from analysis.convergence import ANALYSIS
from analysis.framework.figures import STYLE, new_figure, save_figure, styled
from analysis.framework.output import RunIdentity, default_folder, json_ready, weights_sha256
from implicit.runs.loading import STORED_RUNS, Run

RESOLUTION = "savefig.dpi", STYLE["savefig.dpi"]
"""The resolution that users get; other tests draw coarsely."""

COMMANDS: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "convergence": (convergence, ["--length", "6", "--rtol", "1e-4"], {"length": 6, "rtol": 1e-4}),
    "length_generalization": (length_generalization, ["--lengths", "4", "6"], {"lengths": (4, 6)}),
}
"""A question about one run, and one about several."""


def test_the_hash_is_that_of_the_weights_file(make_run: Any) -> None:
    run = make_run("implicit-mamba2")
    content = (run.path / "model.safetensors").read_bytes()
    assert weights_sha256(run.model) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_what_was_computed_beside_its_figure(
    make_run: Any, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STYLE, *RESOLUTION)
    run = make_run("implicit-mamba2", contracting=True)
    module, flags, settings = COMMANDS[name]
    argv = [str(run.path), *flags, "--sequences", "3", "--seed", "7", "--width"]
    assert module.main([*argv, "wide"]) == 2
    assert "width is 'wide'; give inches from 3 to 20" in capsys.readouterr().err
    assert module.main([*argv, "3.3"]) == 0
    folder, printed = run.path / "analysis" / name, " ".join(capsys.readouterr().out.split())
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}.{kind}" for kind in ("caption.txt", "json", "pdf", "png")
    ]
    assert all(path.stat().st_size > 300 for path in folder.iterdir())
    assert int.from_bytes((folder / f"{name}.png").read_bytes()[16:20], "big") == 990
    assert f"{name}.json" in printed
    content = json.loads((folder / f"{name}.json").read_text())
    assert content["settings"]["seed"] == 7
    assert content["environment"]["torch"]
    identity = content["run"] if "run" in content else content["runs"][0]
    assert identity == RunIdentity.of(run).__dict__
    expected = module.analyse(run, **settings, sequences=3, seed=7)
    # the same computation in the same process: equal to the last bit
    assert content["result"] == json_ready(expected.numbers())
    sentence = content["findings"][run.name]["sentence"]
    assert sentence in printed
    caption = (folder / f"{name}.caption.txt").read_text(encoding="utf-8")
    assert f"Found: {sentence}." in caption
    assert f"with seed 2, {identity['parameters']} parameters" in caption
    assert "sequences 3" in caption.partition("Settings: ")[2]


def test_results_of_a_stored_run_do_not_go_into_the_package(make_run: Any) -> None:
    run = make_run("lstm")
    stored = Run(STORED_RUNS / "parity", run.config, run.model, run.task, [])
    assert default_folder(stored, "jacobian") == Path("out/parity/jacobian")
    assert default_folder(run, "jacobian") == run.path / "analysis" / "jacobian"


def test_equal_figures_are_equal_files_and_the_caller_keeps_his_settings(tmp_path: Path) -> None:
    backend, settings, figures = mpl.get_backend(), dict(mpl.rcParams), plt.get_fignums()
    written = []
    for name in ("one", "two"):
        with styled():
            figure = new_figure(3, 2, "title")
            figure.subplots().plot(np.arange(3.0))
        (tmp_path / name).mkdir()
        written.append([path.read_bytes() for path in save_figure(figure, tmp_path / name, "figure")])
    assert written[0] == written[1]
    assert mpl.get_backend() == backend
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures


def undrawn(analysis: Any) -> Any:
    """The same question with an empty figure: drawing takes longest."""
    return dataclasses.replace(analysis, draw=lambda *_: Figure((1, 1)))


JACOBIAN, GENERALIZATION = undrawn(jacobian.ANALYSIS), undrawn(length_generalization.ANALYSIS)
FEW = ["--length", "6", "--sequences", "2", "--states", "2"]
LENGTHS = ["--lengths", "6", "--sequences", "2"]


def test_runs_named_alike_do_not_share_a_folder(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_run("lstm", name="a/run")
    second = make_run("gru", name="b/run")
    out = ["--out", str(tmp_path / "out")]
    assert JACOBIAN.main([str(first.path), *FEW, *out]) == 0
    before = (tmp_path / "out" / "jacobian.json").read_bytes()
    capsys.readouterr()
    assert JACOBIAN.main([str(second.path), *FEW, *out]) == 2
    error = capsys.readouterr().err
    assert "out, which holds jacobian.json of other weights (run); give another folder with --out" in error
    assert (tmp_path / "out" / "jacobian.json").read_bytes() == before
    assert JACOBIAN.main([str(first.path), *FEW, *out, "--seed", "1"]) == 0  # of the same run: replaced
    assert json.loads((tmp_path / "out" / "jacobian.json").read_text())["settings"]["seed"] == 1


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("name", ["jacobian.json", "jacobian.png", "report.json", "report.md", "analysis"])
def test_files_that_no_analysis_wrote_are_not_replaced(
    make_run: Any, tmp_path: Path, name: str, within: bool
) -> None:
    run = make_run("lstm")
    folder = run.path / "notes" if within else tmp_path / "out"
    folder.mkdir()
    (folder / name).write_text('{"my": "own"}')
    if name.startswith("jacobian"):
        assert JACOBIAN.main([str(run.path), *FEW, "--out", str(folder)]) == 2
    else:
        assert demo.main(["--out", str(folder)]) == report.main([str(run.path), "--out", str(folder)]) == 2
    assert [file.read_text() for file in folder.iterdir()] == ['{"my": "own"}']


def test_a_comparison_of_other_runs_is_not_replaced(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the default folder of several runs is out/length_generalization
    runs = [str(make_run(model).path) for model in ("lstm", "gru", "elman")]
    assert GENERALIZATION.main([*runs[:2], *LENGTHS]) == 0
    assert GENERALIZATION.main([*runs[1:], *LENGTHS]) == 2
    assert GENERALIZATION.main([*runs[1::-1], *LENGTHS]) == 0  # the same runs in another order


def test_results_are_not_written_through_a_link_out_of_the_run_folder(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, mine = make_run("lstm"), tmp_path / "mine"
    (mine / "jacobian").mkdir(parents=True)
    (mine / "jacobian" / "jacobian.json").write_text("precious")
    (run.path / "analysis").symlink_to(mine)
    assert JACOBIAN.main([str(run.path), *FEW]) == 2
    assert f"analysis is a link to {mine}; remove it, or give another" in capsys.readouterr().err
    assert (mine / "jacobian" / "jacobian.json").read_text() == "precious"
    (tmp_path / "elsewhere").symlink_to(run.path.rename(tmp_path / "moved"))
    (tmp_path / "moved" / "analysis").unlink()
    assert JACOBIAN.main([str(tmp_path / "elsewhere"), *FEW]) == 0


@pytest.mark.parametrize("ending", [".json", ".png", ".caption.txt"])
def test_a_folder_in_the_place_of_a_result_is_told_before_the_work(
    ending: str, make_run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("lstm")
    planted = run.path / "analysis" / "jacobian" / f"jacobian{ending}"
    planted.mkdir(parents=True)
    monkeypatch.setattr(type(jacobian.ANALYSIS), "answer", None)
    assert JACOBIAN.main([str(run.path), *FEW]) == 2
    assert f"jacobian{ending} is a folder; move it away, or give another" in capsys.readouterr().err


FILES = {f"convergence.{kind}" for kind in ("caption.txt", "json", "pdf", "png")}


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledAt:
    """Replaces calls of functions that change files; the n-th does not come back."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise Killed
            return function(*arguments, **options)

        return call


def test_new_results_never_lie_beside_old_ones(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, settings = make_run("implicit-mamba2", contracting=True), ANALYSIS.settings(sequences=3, length=6)
    outcome = ANALYSIS.measure(run, settings)
    quick = dataclasses.replace(undrawn(ANALYSIS), measure=lambda *_: outcome)
    for number in range(1, 100):
        for name in FILES:
            (tmp_path / name).write_bytes(b"old")
        killed = KilledAt(number)
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(os, name, killed(getattr(os, name)))
            with contextlib.suppress(Killed):
                quick.answer([run], settings, [tmp_path])
        old = {
            name for name in FILES if (tmp_path / name).exists() and (tmp_path / name).read_bytes() == b"old"
        }
        new = {name for name in FILES if (tmp_path / name).exists()} - old
        assert not old or not new, f"call {number}: {old} and {new}"
        if killed.left > 0:
            break
    assert new == FILES


def test_what_a_killed_process_left_is_removed(make_run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine, left = out / ".unfinished-notes", out / f".unfinished-{2**22 + 1}-abc"  # there is no such process
    mine.mkdir(parents=True)
    left.mkdir()
    far = out / f".unfinished-{'9' * 20}-a"  # no number of a process
    far.mkdir()
    run, settings = make_run("implicit-mamba2", contracting=True), ANALYSIS.settings(sequences=3, length=6)
    undrawn(ANALYSIS).answer([run], settings, [out])
    assert {path.name for path in out.iterdir()} == {mine.name, far.name, *FILES}
