"""The GPU benchmark of the ops around the scan, as far as it goes without one; no time is looked at."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_elementwise as benchmark

pytestmark = pytest.mark.triton

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]

TINY = benchmark.Sizes(batch=1, length=3, d_model=4, head_size=4, d_state=2)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FULL", "QUICK", "INTERPRETED"):
        monkeypatch.setattr(benchmark, name, TINY)


def test_times_need_a_gpu(refuses: Refuses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = refuses(benchmark.main, ["--out", str(tmp_path / "out.json")])
    assert told == "error: no GPU was found, and times need one; give --check-only to compare results only\n"


def test_the_check_passes_and_is_stored(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    benchmark.main(["--check-only", "--out", str(out)])
    record = json.loads(out.read_text())
    assert (record["environment"]["gpu"] is None) == (DEVICE == "cpu")
    assert [(result["op"], result["dtype"]) for result in record["results"]] == [
        (op, dtype) for dtype in ("bfloat16", "float32") for op in ("gated_norm", "short_convolution")
    ]
    assert all(result["check"]["correct"] and result["times"] is None for result in record["results"])


def test_a_wrong_result_reports_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "TOLERANCES", {torch.float32: 0.0})
    with pytest.raises(
        SystemExit, match="wrong results, no speed is reported for: gated_norm float32, short"
    ):
        benchmark.main(["--check-only", "--dtypes", "float32"])
    results = benchmark.run(TINY, torch.float32, DEVICE, rounds=1)
    assert [result["times"] for result in results] == [None, None]


def test_every_contender_is_timed_and_its_ratio_is_to_the_kernel() -> None:
    op = benchmark.ops(TINY, torch.float32, DEVICE)["short_convolution"]
    called: list[Callable[[], object]] = []

    def stopped(function: Callable[[], object]) -> float:
        called.append(function)
        return (2.0, 8.0, 4.0)[(len(called) - 1) % 3]

    measured = benchmark.measure(op, 2, stopped)
    assert len(called) == 12
    assert measured["forward"]["times_slower_than_kernel"] == {
        benchmark.KERNEL: 1,
        benchmark.PASSES: 4,
        benchmark.AUTOGRAD: 2,
    }
    # 6 tokens of 12 channels in and out, 12 times 4 taps and 12 biases, 4 bytes each, in 2 ms.
    assert measured["forward"]["gigabytes_a_second"][benchmark.KERNEL] == pytest.approx(4 * 204 / 2e6)
    benchmark.report(measured)
