"""Run the benchmarks: ``python -m benchmarks [NAME ...] [--repeat N] [--out DIR]``.

``--list`` shows them and ``--summary`` what is stored of them, as the Markdown of docs/benchmarks.md.

Every case is checked before it is timed. One that is not correct reports no speed and makes the exit code 1.

``--repeat 2`` runs everything, then everything once more. Both runs are stored in ``<name>.json``, so that a
reader sees beside each figure how much it differs when nothing but the hour has changed.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from automata.errors import InputError, unknown_name
from benchmarks.frame import Benchmark, describe_machine, run_case
from benchmarks.summary import summary, table
from implicit.command_line import CommandParser, run_command
from implicit.runs.files import write_bytes

RESULTS = Path(__file__).parent / "results"
THREADS = 1
NAMES = ("mamba2_cell", "cells")
BENCHMARKS: dict[str, Benchmark] = {name: import_module(f"benchmarks.{name}").BENCHMARK for name in NAMES}


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks", "Check and time what the toolkit does most.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="show the benchmarks, then stop")
    parser.add_argument("--summary", action="store_true", help="show the stored results, then stop")
    parser.add_argument(
        "--repeat", metavar="N", type=int, default=1, help="runs, one after another (default: 1)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=str(RESULTS),
        help="where <name>.json goes (default: benchmarks/results)",
    )
    arguments = parser.parse_args(argv)
    for name in arguments.names:
        if name not in BENCHMARKS:
            raise unknown_name("benchmark", name, BENCHMARKS)
    if arguments.repeat < 1:
        raise InputError(f"repeat is {arguments.repeat}; give at least 1")
    names = list(dict.fromkeys(arguments.names or BENCHMARKS))
    folder = Path(arguments.out)
    if arguments.list:
        width = max(map(len, names))
        print("\n".join(f"{name:<{width}}  {BENCHMARKS[name].description}" for name in names))
    elif arguments.summary:
        print(summary((BENCHMARKS[name] for name in names), stored(folder, names)))
    elif not run(names, arguments.repeat, folder):
        sys.exit(1)


def run(names: list[str], repeat: int, folder: Path) -> bool:
    """Run benchmarks, print their tables and store them; return whether all of it was correct."""
    torch.set_num_threads(THREADS)
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=max(Console().width, 120))  # of a file, 80 is assumed
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    environment = describe_machine()  # before results are written, which may change the working copy
    for _ in range(repeat):
        for name in names:
            benchmark = BENCHMARKS[name]
            cases = [run_case(case) for case in benchmark.cases()]
            date = datetime.now(UTC).date().isoformat()
            runs[name].append({"date": date, "environment": environment, "cases": cases})
            console.print(table(f"{name}: {benchmark.description}", cases))
            record = {
                "benchmark": name,
                "description": benchmark.description,
                "checked": benchmark.checked,
                "command": f"python -m benchmarks {name} --repeat {repeat}",
                "clock": "processor time of the process, in seconds",
                "runs": runs[name],
            }
            write_bytes(folder / f"{name}.json", (json.dumps(record, indent=1) + "\n").encode())
    return all(case["correct"] for found in runs.values() for one in found for case in one["cases"])


def stored(folder: Path, names: list[str]) -> dict[str, Any]:
    results = {}
    for name in names:
        path = folder / f"{name}.json"
        if not path.is_file():
            raise InputError(
                f"benchmark {name!r} has no results in {folder}; run python -m benchmarks {name}"
            )
        results[name] = json.loads(path.read_bytes())
    return results


if __name__ == "__main__":
    sys.exit(run_command(main))
