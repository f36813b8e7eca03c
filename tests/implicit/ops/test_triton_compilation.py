"""The kernels compiled ahead of time for GPUs that need not be here, as the benchmark does for all sizes."""

import json
from typing import Any

import pytest

from tests.processes import ROOT, run_python

KERNELS = {
    "carry",
    "carry_reverse",
    "output",
    "input_gradient",
    "projection_gradient",
    "sequential_solve",
    "gated_norm",
    "gated_norm_gradient",
    "short_convolution",
    "short_convolution_gradient",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The quick selection of sizes, compiled in a process that does not interpret."""
    path = tmp_path_factory.mktemp("compilation") / "report.json"
    command = ("-m", "benchmarks.triton_compilation", "--quick", "--out", path)
    run_python(*command, cwd=ROOT, TRITON_INTERPRET="0")
    results: list[dict[str, Any]] = json.loads(path.read_text())["results"]
    return results


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_every_kernel_compiles_for_every_target(report: list[dict[str, Any]], target: str) -> None:
    assert {row["kernel"] for row in report if row["target"] == target} == KERNELS


def test_memory_is_within_the_limits_and_next_to_none_is_spilled(report: list[dict[str, Any]]) -> None:
    limits = {
        "sm_80": 166_912,
        "sm_90": 232_448,
        "gfx942": 65_536,
    }  # bytes a block, from the vendors' manuals
    for row in report:
        assert 0 <= row["shared_bytes"] <= limits[row["target"]], row
        assert 16 <= row["registers"] <= 512, row
        # A quarter of what a thread holds in its registers, 255 of 4 bytes (NVIDIA) or 256 (AMD). On an H200
        # tiles that spill less than that were the fastest: 0.42 ms with 80 bytes, 0.74 with none.
        assert row.get("spilled_bytes", 0) <= 255, row
        assert row.get("spilled_registers", 0) <= 64, row
