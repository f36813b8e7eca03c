"""The benchmarks of a GPU, as far as they go without one; no time is looked at."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest
import torch

from benchmarks import gpu, gpu_elementwise, gpu_sequential_solve
from implicit.fixed_point import Stopping


def test_without_a_gpu_one_sentence_and_nothing_written(
    tmp_path: Path, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "gpu.json"
    assert "torch finds no GPU" in refuses(gpu.main, ["--out", str(out)])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that steps can run."""
    (tmp_path / "one_that_reports.py").write_text(
        "import json, os, sys\n"
        "print('measuring', *sys.argv[1:-2])\n"
        "open(sys.argv[-1], 'w').write(json.dumps({'interpreted': os.environ.get('TRITON_INTERPRET')}))\n"
    )
    (tmp_path / "one_that_fails.py").write_text("raise SystemExit('wrong results')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return tmp_path


def test_reports_and_failures_are_stored_side_by_side(scripts: Path) -> None:
    out = scripts / "results" / "gpu.json"
    good = gpu.Step("good", "one_that_reports", ("--length", "8"), ("--length", "2"))
    assert gpu.run([good], out, quick=True)
    assert not gpu.run([good, gpu.Step("bad", "one_that_fails"), gpu.Step("none", "one_not_there")], out)
    stored = json.loads(out.read_text())
    assert stored["steps"] == {
        # Kernels are compiled there, whatever this process does.
        "good": {"exit_code": 0, "report": {"interpreted": None}, "printed": ["measuring --length 8"]},
        "bad": {"exit_code": 1, "report": None, "printed": ["wrong results"]},
        "none": {"exit_code": None, "report": None, "printed": ["there is no module one_not_there"]},
    }
    assert {"gpu", "cuda", "triton", "mamba-ssm", "commit"} <= set(stored["environment"])


OPS = gpu_elementwise.Sizes(batch=1, length=3, d_model=4, head_size=4, d_state=2)
SOLVE = gpu_sequential_solve.Sizes(
    batches=(1,), length=1, d_model=4, d_state=2, head_size=4, iterations=2, rtol=0.5
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(params=[gpu_elementwise, gpu_sequential_solve], ids=["ops", "solve"])
def benchmark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One of the commands, with tiny sizes."""
    module: ModuleType = request.param
    for name in {"FULL", "QUICK", "INTERPRETED"} & set(vars(module)):
        monkeypatch.setattr(module, name, OPS if module is gpu_elementwise else SOLVE)
    return module


@pytest.mark.triton
def test_times_need_a_gpu(
    benchmark: ModuleType, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = refuses(benchmark.main, ["--out", str(tmp_path / "out.json")])
    assert told == "error: no GPU was found, and times need one; give --check-only to compare results only\n"


@pytest.mark.triton
def test_the_check_passes_and_is_stored(benchmark: ModuleType, tmp_path: Path) -> None:
    out, ops = tmp_path / "out.json", ["gated_norm", "short_convolution"]
    dtypes = [] if benchmark is gpu_elementwise else ["--dtypes", "float32"]
    benchmark.main(["--check-only", *dtypes, "--out", str(out)])
    record = json.loads(out.read_text())
    assert (record["environment"]["gpu"] is None) == (DEVICE == "cpu")
    assert all(result["check"]["correct"] and not result["times"] for result in record["results"])
    if benchmark is gpu_elementwise:
        assert [(result["op"], result["dtype"]) for result in record["results"]] == [
            (op, dtype) for dtype in ("bfloat16", "float32") for op in ops
        ]


@pytest.mark.triton
def test_a_wrong_result_reports_no_speed(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "TOLERANCES", {torch.float32: 0.0})
    named = "gated_norm float32, short" if benchmark is gpu_elementwise else "float32"
    with pytest.raises(SystemExit, match=f"wrong results, no speed is reported for: {named}"):
        benchmark.main(["--check-only", "--dtypes", "float32"])
    if benchmark is gpu_elementwise:
        results = gpu_elementwise.run(OPS, torch.float32, DEVICE, rounds=1)
        assert [result["times"] for result in results] == [None, None]
    else:
        assert gpu_sequential_solve.run(SOLVE, torch.float32, DEVICE, rounds=1)["times"] == []


@pytest.mark.triton
def test_every_contender_is_timed_and_its_ratio_is_to_the_kernel() -> None:
    clock = Mock(side_effect=itertools.cycle([2, 8, 4]))
    op = gpu_elementwise.ops(OPS, torch.float32, DEVICE)["short_convolution"]
    measured = gpu_elementwise.measure(op, 2, clock)
    assert clock.call_count == 12
    ratios = {gpu_elementwise.KERNEL: 1, gpu_elementwise.PASSES: 4, gpu_elementwise.AUTOGRAD: 2}
    assert measured["forward"]["times_slower_than_kernel"] == ratios
    # 6 tokens of 12 channels in and out, 12 times 4 taps and 12 biases, 4 bytes each, in 2 ms.
    speed = measured["forward"]["gigabytes_a_second"][gpu_elementwise.KERNEL]
    assert speed == pytest.approx(4 * 204 / 2e6)
    gpu_elementwise.report(measured)


@pytest.mark.triton
@torch.no_grad()
def test_every_way_is_timed_and_its_ratio_is_to_the_loop() -> None:
    clock, stopping = Mock(side_effect=itertools.cycle([8, 4, 2])), Stopping(rtol=0.5)
    measured = gpu_sequential_solve.measure(SOLVE, torch.float32, DEVICE, 1, stopping, 2, clock)
    assert measured["times_faster_than_eager"] == {"fused, token by token": 2, "fused, whole sequence": 4}
    assert clock.call_count == 6
    gpu_sequential_solve.report(measured)
