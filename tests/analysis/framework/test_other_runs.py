"""Results of one run are never replaced by those of another without a word."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import jacobian, length_generalization

SMALL = ["--length", "6", "--sequences", "2", "--states", "2"]
LENGTHS = ["--lengths", "6", "--sequences", "2"]


def test_runs_named_alike_do_not_share_a_folder(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_run("lstm", name="a/run")
    second = make_run("gru", name="b/run")
    out = ["--out", str(tmp_path / "out")]
    assert jacobian.main([str(first.path), *SMALL, *out]) == 0
    before = (tmp_path / "out" / "jacobian.json").read_bytes()
    capsys.readouterr()
    assert jacobian.main([str(second.path), *SMALL, *out]) == 2
    error = capsys.readouterr().err
    assert "out, which holds jacobian.json of other weights (run); give another folder with --out" in error
    assert (tmp_path / "out" / "jacobian.json").read_bytes() == before
    assert jacobian.main([str(first.path), *SMALL, *out, "--seed", "1"]) == 0  # of the same run: replaced
    assert json.loads((tmp_path / "out" / "jacobian.json").read_text())["settings"]["seed"] == 1


def test_a_comparison_of_other_runs_is_not_replaced(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the default folder of several runs is out/length_generalization
    runs = [str(make_run(model).path) for model in ("lstm", "gru", "elman")]
    assert length_generalization.main([*runs[:2], *LENGTHS]) == 0
    assert length_generalization.main([*runs[1:], *LENGTHS]) == 2
    assert length_generalization.main([*runs[1::-1], *LENGTHS]) == 0  # the same runs in another order


def test_results_are_not_written_through_a_link_out_of_the_run_folder(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, mine = make_run("lstm"), tmp_path / "mine"
    (mine / "jacobian").mkdir(parents=True)
    (mine / "jacobian" / "jacobian.json").write_text("precious")
    (run.path / "analysis").symlink_to(mine)
    assert jacobian.main([str(run.path), *SMALL]) == 2
    assert f"analysis is a link to {mine}; remove it, or give another" in capsys.readouterr().err
    assert (mine / "jacobian" / "jacobian.json").read_text() == "precious"
    (tmp_path / "elsewhere").symlink_to(run.path.rename(tmp_path / "moved"))
    (tmp_path / "moved" / "analysis").unlink()
    assert jacobian.main([str(tmp_path / "elsewhere"), *SMALL]) == 0
