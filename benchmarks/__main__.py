"""Run the benchmarks: ``python -m benchmarks [NAME ...] [--list] [--out DIR]``.

Every case is checked before it is timed. One that is not correct reports no speed and makes the exit code 1.
"""

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from automata.errors import unknown_name
from benchmarks import (
    certificates,
    fixed_point_modes,
    jacobians,
    mamba2_cell,
    solvers,
    ssd_scan,
    word_problem_throughput,
)
from benchmarks.frame import Benchmark, run_case
from implicit.command import CommandParser, run_command
from implicit.environment import describe_environment
from implicit.storage import write_bytes

RESULTS = Path(__file__).parent / "results"
THREADS = 1
BENCHMARKS = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        word_problem_throughput,
        ssd_scan,
        mamba2_cell,
        fixed_point_modes,
        jacobians,
        solvers,
        certificates,
    )
}
_NOT_COUNTS = {"median_seconds", "best_seconds", "ratio_to_first", "share", "seconds"}


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks", "Check and time what the toolkit does most.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="show the benchmarks, then stop")
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=str(RESULTS),
        help="where <name>.json goes (default: benchmarks/results)",
    )
    arguments = parser.parse_args(argv)
    if arguments.list:
        width = max(map(len, BENCHMARKS))
        print(
            "\n".join(f"{name:<{width}}  {benchmark.description}" for name, benchmark in BENCHMARKS.items())
        )
        return
    for name in arguments.names:
        if name not in BENCHMARKS:
            raise unknown_name("benchmark", name, BENCHMARKS)
    torch.set_num_threads(THREADS)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    correct = True
    for name in dict.fromkeys(arguments.names or BENCHMARKS):
        record = run_benchmark(BENCHMARKS[name])
        console.print(table(record))
        write_bytes(folder / f"{name}.json", (json.dumps(record, indent=1) + "\n").encode())
        correct = correct and all(case["correct"] for case in record["cases"])
    if not correct:
        sys.exit(1)


def run_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    """Run all cases and return what is stored: raw times and the environment that they were taken in."""
    return {
        "benchmark": benchmark.name,
        "description": benchmark.description,
        "command": f"python -m benchmarks {benchmark.name}",
        "date": datetime.now(UTC).date().isoformat(),
        "clock": "processor time of the process, in seconds",
        "environment": {**describe_environment(), "processor": processor(), "cores": os.cpu_count()},
        "cases": [run_case(case) for case in benchmark.cases()],
    }


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # only Linux has this file
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def table(record: dict[str, Any]) -> Table:
    """Lay a benchmark's record out for the terminal."""
    parameters = [case["parameters"] for case in record["cases"]]
    common = {
        name: value for name, value in parameters[0].items() if all(p[name] == value for p in parameters)
    }
    title = f"{record['benchmark']}: {record['description']}"
    if len(parameters) > 1 and common:
        title += f" ({_in_words(common)})"
    shown = Table(title=title, title_justify="left")
    for column in ("case", "contender"):
        shown.add_column(column)
    for column in ("median ms", "best ms", "time ratio", ""):
        shown.add_column(column, justify="right")
    for case in record["cases"]:
        own = {name: value for name, value in case["parameters"].items() if name not in common}
        label = _in_words(own or case["parameters"])
        if not case["correct"]:
            shown.add_row(label, f"[red]not correct, no speed: {case['fault']}[/red]")
            continue
        for name, times in case["contenders"].items():
            shown.add_row(
                label,
                name,
                f"{1e3 * times['median_seconds']:.2f}",
                f"{1e3 * times['best_seconds']:.2f}",
                f"{times['ratio_to_first']:.2f}",
                _remark(times),
            )
            label = ""
    return shown


def _in_words(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def _remark(times: dict[str, Any]) -> str:
    """Rates and counts in words."""
    parts = [] if times["share"] == 1 else [f"from {times['share']:.1%} of the work"]
    for name, value in times.items():
        if name.endswith("_per_second"):
            parts.append(f"{value['median'] / 1e6:.1f} million {name.removesuffix('_per_second')} a second")
        elif name not in _NOT_COUNTS:
            parts.append(f"{value} {name.replace('_', ' ')}")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(run_command(main))
