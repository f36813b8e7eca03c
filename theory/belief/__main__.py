"""Print the figures of docs/belief.md: decay, underflow, rescaling and worst sequences of filters."""

import sys
from collections.abc import Sequence
from functools import partial

from automata.command_line import Parser, exit_code
from automata.errors import InputError
from theory.belief.report import decay_report, rescaling_report, underflow_report, worst_report


def _command(argv: Sequence[str] | None) -> None:
    parser = Parser("python -m theory.belief", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of what is measured (default 0)")
    seed = parser.parse_args(argv).seed
    if seed < 0:
        raise InputError(f"seed is {seed}; give a number of at least 0")
    for title, report in {
        "Decay per reveal, in nats": lambda: decay_report(seed=seed),
        "Reveals until underflow": lambda: underflow_report(seed=seed),
        "Tokens that gains carry float32": lambda: rescaling_report(seed=seed),
        "Worst sequences": worst_report,
    }.items():
        print(f"{title}\n\n{report()}\n", flush=True)


main = partial(exit_code, _command)


if __name__ == "__main__":
    sys.exit(main())
