"""Is a changed certificate refused, or true? ``python -m benchmarks.certificate_mutations [N] [--seed S]``.

Changes N small certificates of each kind as a forger would, seals them anew, gives them to the checker, and
judges what it accepts by an evaluation of the model in mpmath that shares nothing with it. Exit code 1 if one
was accepted that is false, or made the checker fail: its text is written to a file.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from analysis.framework.finding import Rows
from automata.errors import InputError
from benchmarks.certificate_mutations.sweep import Outcome, sweep
from benchmarks.certificate_mutations.targets import targets
from implicit.command_line import CommandParser, run_command

FOUND = 1


def main(argv: Sequence[str] | None = None) -> int:
    outcomes: list[Outcome] = []
    code = run_command(lambda given: outcomes.extend(_sweeps(given)), argv)
    return code or (FOUND if any(outcome.faults for outcome in outcomes) else 0)


def _sweeps(argv: Sequence[str] | None) -> list[Outcome]:
    parser = CommandParser(
        "python -m benchmarks.certificate_mutations", "Change certificates and see what the checker says."
    )
    parser.add_argument(
        "mutations", metavar="N", nargs="?", type=int, default=1000, help="of each kind (1000)"
    )
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of the changes (default: 0)")
    parser.add_argument(
        "--out", metavar="FOLDER", default="out/certificate_mutations", help="for what is found"
    )
    arguments = parser.parse_args(argv)
    if arguments.mutations < 1:
        raise InputError(f"N is {arguments.mutations}; give at least 1")
    outcomes, rows = [], []
    with TemporaryDirectory() as folder:
        for target in targets(Path(folder)):
            began = time.monotonic()
            found = sweep(target, arguments.mutations, arguments.seed)
            outcomes.append(found)
            numbers = (found.mutations, found.refused.total(), found.true, found.unchanged, len(found.faults))
            rows.append([found.kind, *map(str, numbers), f"{time.monotonic() - began:.1f}"])
    columns = ["certificate of", "mutations", "refused", "accepted, true", "unchanged", "found", "seconds"]
    title = f"mutations of certificates, seed {arguments.seed}"
    Console().print(Rows(columns, rows, title).terminal())
    for outcome in outcomes:
        for number, (fault, text) in enumerate(outcome.faults):
            path = Path(arguments.out) / f"{outcome.kind} {number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{path}: {fault}")
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
