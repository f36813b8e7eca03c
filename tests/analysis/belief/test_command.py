"""The command: numbers beside a figure as wide as asked, for one run and for several of different tasks."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import belief

FLAGS = ["--sequences", "4", "--probe-sequences", "8", "--probe-validation", "4", "--window", "4"]


def test_numbers_stand_beside_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    argv = ["lazy-swaps-gated-deltanet", "--lengths", "96", "32", *FLAGS, "--out", str(out)]
    assert belief.main([*argv, "--width", "3.3"]) == 0
    content = json.loads((out / "belief.json").read_text())
    result = content["result"]["lazy-swaps-gated-deltanet"]
    assert result["lengths"] == [32, 96]
    assert set(result["predictions"]["by_length"]) == set(result["probe"]["by_length"]) == {"32", "96"}
    kl = result["predictions"]["by_length"]["96"]["kl"]
    assert kl["low"] < kl["mean"] < kl["high"]
    assert kl["sequences"] == 4
    assert result["norms"]["linear_in_state"] is True
    rate = result["norms"]["layers"][0]["rate_per_token"]
    assert rate["low"] < rate["per_token"] < rate["high"]
    assert result["exact_filter"]["mean"]["per_token"] < 0
    png = (out / "belief.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == 990
    assert (out / "belief.pdf").is_file()
    assert "probe validation 4" in (out / "belief.caption.txt").read_text()
    assert "log mass" in capsys.readouterr().out


def test_runs_of_several_tasks_and_models_stand_in_one_figure(make_run: Any, tmp_path: Path) -> None:
    runs = [
        make_run("lstm", task="noisy-parity-states", length=8),
        make_run("transformer", task="lazy-swaps-3-reveals", length=16),
    ]
    out = tmp_path / "out"
    argv = [*(str(run.path) for run in runs), "--multiples", "1", "2", *FLAGS, "--out", str(out)]
    assert belief.main(argv) == 0
    content = json.loads((out / "belief.json").read_text())
    assert content["result"]["lstm"]["lengths"] == [8, 16]
    assert content["result"]["transformer"]["lengths"] == [16, 32]
    assert content["result"]["transformer"]["norms"] is None
    # a state is asked after every token: as many places as tokens
    by_length = content["result"]["lstm"]["predictions"]["by_length"]
    assert [by_length[length]["kl"]["places"] for length in ("8", "16")] == [32, 32]
