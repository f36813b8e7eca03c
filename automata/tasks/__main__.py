"""Command: random words of a task with their answers as CSV, the format of the public word-problem generator.

python -m automata.tasks A5 --length 16 --sequences 10000 --out A5=16.csv
"""

import sys
from collections.abc import Sequence
from functools import partial

from automata.command_line import Parser, exit_code
from automata.errors import printable
from automata.tasks.sequence_file import write_sequences
from automata.tasks.specification import task_from


def command(argv: Sequence[str] | None = None) -> int:
    """Write the file; return the exit code."""
    parser = Parser("python -m automata.tasks", __doc__)
    parser.add_argument("task", help="a name, or regex:EXPRESSION, file:PATH, object:MODULE:NAME")
    parser.add_argument("--length", type=int, required=True, metavar="N", help="tokens of each word")
    parser.add_argument("--sequences", type=int, required=True, metavar="N", help="how many words")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the words (default 0)")
    parser.add_argument("--out", required=True, metavar="FILE", help="a file that does not exist yet")
    given = parser.parse_args(argv)
    task = task_from(given.task)
    path = write_sequences(given.out, task, sequences=given.sequences, length=given.length, seed=given.seed)
    print(f"{given.sequences} words of {printable(task.name)} with {given.length} tokens in {path}")
    return 0


main = partial(exit_code, command)


if __name__ == "__main__":
    sys.exit(main())
