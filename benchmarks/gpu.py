"""All that waits for a GPU, in one command: ``python -m benchmarks.gpu [--quick] [--out FILE]``.

Every script that measures a kernel runs, and checks it first, then the kernel tests, each in a process of its
own: Triton settles when it is imported whether kernels are compiled or interpreted. Their reports are written
to ``benchmarks/results/gpu.json`` with the environment; a script that fails is stored with what it said, and
the exit code is 1. ``mamba_ssm`` is a rival where it is installed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from automata.errors import InputError
from implicit.command_line import CommandParser, run_command
from implicit.runs.environment import Environment, describe_environment
from implicit.runs.files import write_bytes

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "results" / "gpu.json"
LINES_KEPT = 40
PACKAGES = ("triton", "mamba-ssm")


@dataclass(frozen=True)
class Step:
    """One process, ``python -m module``, with all flags but ``--out``, which names its report if it
    ``reports``.

    ``quick`` stands in place of the arguments when only the working is to be seen.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    reports: bool = True

    def run(self, quick: bool = False) -> dict[str, Any]:
        """Run it and return exit code, report (None without one) and the last lines that it printed."""
        if find_spec(self.module) is None:
            return {"exit_code": None, "report": None, "printed": [f"there is no module {self.module}"]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            command = [sys.executable, "-m", self.module, *(self.quick if quick else self.arguments)]
            if self.reports:
                command += ["--out", str(path)]
            process = subprocess.run(
                command,
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            report = json.loads(path.read_bytes()) if path.is_file() else None
        lines = process.stdout.replace(str(ROOT), ".").splitlines()
        return {"exit_code": process.returncode, "report": report, "printed": lines[-LINES_KEPT:]}


# pytest-benchmark, where it is installed, warns of pytest-xdist, and warnings are errors.
TESTS = ("tests/implicit/ops", "-m", "triton", "-q", "-n8", "-pno:cacheprovider", "-pno:benchmark")
STEPS = (
    # (B = 8, L = 2048, 24 heads of 64, d_state 128) is what gpu_ssd takes where there is a GPU.
    Step("ssd_scan", "benchmarks.gpu_ssd", (), ("--length", "256", "--rounds", "5")),
    # (batch 64, d 256, d_state 128, one layer), against the eager loop.
    Step("sequential_solve", "benchmarks.gpu_sequential_solve", ("--rounds", "10"), ("--rounds", "2")),
    # (B = 8, L = 2048, d_model 768, expand 2, d_state 128), against PyTorch.
    Step("around_scan", "benchmarks.gpu_elementwise", (), ("--quick", "--rounds", "5")),
    Step("kernel_tests", "pytest", TESTS, TESTS, reports=False),  # minutes, most of them of compilation
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks.gpu", "Test and time the kernels on the GPU at hand.")
    parser.add_argument("--quick", action="store_true", help="small sizes: see that it works")
    parser.add_argument(
        "--out", metavar="FILE", default=str(OUT), help="the results (default: benchmarks/results/gpu.json)"
    )
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        raise InputError("device is cpu: torch finds no GPU; run this on a machine with one")
    if not run(STEPS, Path(arguments.out), quick=arguments.quick):
        sys.exit(1)


def run(steps: Sequence[Step], out: Path, *, quick: bool = False) -> bool:
    """Run the steps one after the other, store after each what there is, and tell whether all succeeded."""
    results: dict[str, Any] = {
        "command": "python -m benchmarks.gpu" + " --quick" * quick,
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(),
        "steps": {},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    for step in steps:
        found = results["steps"][step.name] = step.run(quick)
        print(f"{step.name}: exit code {found['exit_code']}", *found["printed"], sep="\n  ", flush=True)
        write_bytes(out, (json.dumps(results, indent=1) + "\n").encode())
    return all(found["exit_code"] == 0 for found in results["steps"].values())


def environment() -> Environment:
    """The usual, with the GPU and the packages that are rivals or compilers."""
    known: Environment = {**describe_environment(), "cuda": torch.version.cuda}
    known["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = None
    return known


if __name__ == "__main__":
    sys.exit(run_command(main))
