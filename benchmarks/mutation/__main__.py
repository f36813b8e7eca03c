"""Would the tests notice? ``python -m benchmarks.mutation [AREA ...] [--sample N] [--seed S]``.

Draws small faults in the modules of an area, puts them into a copy of the repository one at a time, and runs
the tests that reach the line until one fails. Each outcome is stored at once in
``benchmarks/results/mutation.json``: a command that was stopped goes on where it was.

A mutant that survives says what no test holds: write one for its kind, then ``--again`` tries those that
survived once more. One that behaves as the original is explained in that file (``--explain NAME REASON``).

Exit code 1 if the tests of an area notice less than 90% of its mutants that are not equivalent.

``mutmut`` makes the faults, ``pytest-testmon`` chooses the tests: ``pip install implicit-ssm[mutation]``.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from automata.errors import InputError
from benchmarks.mutation.areas import AREAS, find_area
from benchmarks.mutation.record import AIM, Results
from implicit.command_line import CommandParser, run_command

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "mutation.json"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(
        "python -m benchmarks.mutation", "Put faults into the code and see what tests say."
    )
    parser.add_argument("areas", metavar="AREA", nargs="*", help=f"{', '.join(AREAS)} (default: all)")
    parser.add_argument("--sample", metavar="N", type=int, default=30, help="mutants per area (default: 30)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    parser.add_argument("--table", action="store_true", help="show the stored results, then stop")
    parser.add_argument(
        "--survivors", action="store_true", help="show the changes that no test noticed, then stop"
    )
    parser.add_argument(
        "--explain", metavar=("NAME", "REASON"), nargs=2, help="say why a mutant is equivalent, then stop"
    )
    parser.add_argument("--out", metavar="FILE", default=str(RESULTS), help="where the results are stored")
    arguments = parser.parse_args(argv)
    areas = {name: find_area(name) for name in dict.fromkeys(arguments.areas or AREAS)}
    if arguments.sample < 1:
        raise InputError(f"sample is {arguments.sample}; give at least 1")
    results = Results(Path(arguments.out))
    if arguments.explain:
        name, reason = arguments.explain
        try:
            results.explain(name, reason)
        except KeyError:
            raise InputError(
                f"mutant {name!r} was not tried; --survivors names those that survived"
            ) from None
    elif arguments.survivors:
        print(_survivors(results, set(areas)))
    elif arguments.table:
        print(results.table())
    else:
        for package in ("mutmut", "testmon"):
            if not find_spec(package):
                raise InputError(f"{package} is not installed; install implicit-ssm[mutation]")
        from benchmarks.mutation.sweep import sweep

        for name, area in areas.items():
            sweep(ROOT, name, area, arguments.sample, arguments.seed, results, arguments.again)
        print(results.table())
        if any(results.scores()[name].share < AIM for name in areas):
            sys.exit(1)


def _survivors(results: Results, areas: set[str]) -> str:
    """Those that survived and are not explained, with their changes."""
    return "\n".join(
        f"{name} ({entry['outcome']}, line {entry['line']})\n{entry['change']}"
        for area, mutants in results.read()["areas"].items()
        for name, entry in mutants.items()
        if area in areas and entry["outcome"] in ("survived", "not reached") and "equivalent" not in entry
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
