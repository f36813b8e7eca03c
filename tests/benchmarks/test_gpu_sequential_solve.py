"""The GPU benchmark of the sequential mode, as far as it goes without a GPU; its times are not looked at."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_sequential_solve as benchmark
from implicit.command_line import BAD_INPUT, run_command
from implicit.fixed_point import Stopping

pytestmark = pytest.mark.triton

TINY = benchmark.Sizes(batches=(1,), length=1, d_model=4, d_state=2, head_size=4, iterations=2, rtol=0.5)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "FULL", TINY)
    monkeypatch.setattr(benchmark, "INTERPRETED", TINY)


def test_times_need_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "out.json"
    assert run_command(benchmark.main, ["--out", str(out)]) == BAD_INPUT
    assert capsys.readouterr().err == (
        "error: no GPU was found, and times need one; give --check-only to compare results only\n"
    )
    assert not out.exists()


def test_the_check_passes_and_is_stored(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    benchmark.main(["--check-only", "--dtypes", "float32", "--out", str(out)])
    record = json.loads(out.read_text())
    assert (record["environment"]["gpu"] is None) == (DEVICE == "cpu")
    assert [result["check"]["correct"] for result in record["results"]] == [True]
    assert record["results"][0]["times"] == []


def test_a_wrong_result_reports_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "TOLERANCES", {torch.float32: 0.0})
    with pytest.raises(SystemExit, match="wrong results, no speed is reported for: float32"):
        benchmark.main(["--check-only", "--dtypes", "float32"])
    assert benchmark.run(TINY, torch.float32, DEVICE, rounds=1)["times"] == []


def test_every_way_is_timed_and_its_ratio_is_to_the_loop() -> None:
    clock: dict[int, float] = {0: 8.0, 1: 4.0, 2: 2.0}
    called: list[Callable[[], object]] = []

    def stopped(function: Callable[[], object]) -> float:
        called.append(function)
        return clock[(len(called) - 1) % 3]

    with torch.no_grad():
        measured = benchmark.measure(TINY, torch.float32, DEVICE, 1, Stopping(rtol=0.5), 2, stopped)
    assert measured["times_faster_than_eager"] == {"fused, token by token": 2, "fused, whole sequence": 4}
    assert len(called) == 6
    benchmark.report(measured)
