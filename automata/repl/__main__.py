"""Command: random sessions as text, and whether sessions of every format are true.

python -m automata.repl --verify 10000
python -m automata.repl --format '{"variables": 5, "reveal": "full"}' --sessions 1000 --out sessions.jsonl
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from automata.checks import check_integer, shown
from automata.command_line import Parser, exit_code
from automata.data_files import strict_json
from automata.errors import InputError
from automata.repl.sampling import sample_traces, write_jsonl, write_text
from automata.repl.session_format import SessionFormat
from automata.repl.verification import formats, verify

WRITERS = {".txt": write_text, ".jsonl": write_jsonl}
WRONG = 1
"""The exit code if a session is not what the interpreter shows."""


def command(argv: Sequence[str] | None = None) -> int:
    """Print or write sessions, or check them; return the exit code."""
    parser = Parser("python -m automata.repl", __doc__)
    parser.add_argument(
        "--verify", type=int, metavar="N", help="check N random sessions of every format, or of --format"
    )
    parser.add_argument("--format", help="JSON with fields of SessionFormat (default {})")
    parser.add_argument("--sessions", type=int, help="how many to write (default 1)")
    parser.add_argument("--commands", type=int, help="actions in each (default 8)")
    parser.add_argument("--out", help="a file that ends in .txt or .jsonl; the screen if left out")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default 0)")
    given = parser.parse_args(argv)
    rng = np.random.default_rng(check_integer("seed", given.seed, 0))
    form = _form(given.format or "{}")
    if given.verify is not None:
        for field in ("sessions", "commands", "out"):
            if (value := getattr(given, field)) is not None:
                raise InputError(f"{field} is {value}, which --verify does not read; leave one of them out")
        number = check_integer("verify", given.verify, 1)
        return _verify([form], number, rng, varied=False) if given.format else _verify(formats(), number, rng)
    sessions = 1 if given.sessions is None else given.sessions
    traces = sample_traces(form, sessions, rng, commands=8 if given.commands is None else given.commands)
    if given.out is None:
        for number, trace in enumerate(traces):
            print("\n" * (number > 0) + trace.text)
    elif Path(given.out).suffix not in WRITERS:
        raise InputError(f"out is {given.out!r}; give a file that ends in {' or '.join(WRITERS)}")
    elif os.path.lexists(given.out):
        raise InputError(f"out is {given.out!r}, which exists; give the path of a new file")
    else:
        print(f"{WRITERS[Path(given.out).suffix](given.out, traces)} sessions in {given.out}")
    return 0


def _form(text: str) -> SessionFormat:
    fields = strict_json(text, f"format {shown(text)}")
    if not isinstance(fields, dict):
        raise InputError(f'format is {text!r}; give an object, such as {{"variables": 5}}')
    return SessionFormat.from_fields(fields)


def _verify(
    kinds: Sequence[SessionFormat], sessions: int, rng: np.random.Generator, *, varied: bool = True
) -> int:
    print(f"{'format':<28} {'sessions':>8} {'values':>8} {'wrong':>6}")
    wrong = 0
    for form, source in zip(kinds, rng.spawn(len(kinds)), strict=True):
        found = verify(form, sessions, source, varied=varied)
        wrong += found.wrong
        print(f"{found.name:<28} {found.sessions:>8} {found.revealed:>8} {found.wrong:>6}", flush=True)
        if found.first_difference is not None:
            print(f"  {found.first_difference}")
    return WRONG if wrong else 0


main = partial(exit_code, command)


if __name__ == "__main__":
    sys.exit(main())
