"""Command: what accuracy on a task is no evidence that a model tracks a state.

python -m automata.audit S5-transpositions
python -m automata.audit 'regex:(ab|ba)*' --length 128
"""

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np

from automata.command_line import Parser, exit_code
from automata.errors import InputError, printable, printable_lines
from automata.tasks.audit import REPORTED_TOKENS, shortcut_audit
from automata.tasks.specification import specification_from_text, task_from
from automata.tasks.word_problem import WordProblem


def command(argv: Sequence[str] | None = None) -> None:
    """Print the audit of a task."""
    parser = Parser("python -m automata.audit", __doc__)
    parser.add_argument(
        "task", help="a name, regex:EXPRESSION, file:PATH, object:MODULE:NAME, text:PATH, or a JSON object"
    )
    parser.add_argument("--length", type=int, default=64, help="tokens in a sequence (default 64)")
    parser.add_argument(
        "--last",
        type=int,
        default=REPORTED_TOKENS,
        help=f"count the last so many (default {REPORTED_TOKENS})",
    )
    parser.add_argument("--windows", type=int, nargs="+", metavar="K", help="default 0 1 2 4 8 16 32")
    parser.add_argument("--hard-fraction", type=float, help="probability of a uniformly drawn token")
    parser.add_argument("--sequences", type=int, default=2048, help="size of a sample (default 2048)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample, where one is needed (default 0)")
    given = parser.parse_args(argv)
    if given.seed < 0:
        raise InputError(f"seed is {given.seed}; give a number of at least 0")
    task = task_from(specification_from_text(given.task), given.hard_fraction)
    audit = shortcut_audit(
        task,
        given.length,
        last=given.last,
        windows=given.windows,
        sequences=given.sequences,
        rng=np.random.default_rng(given.seed),
    )
    print(printable_lines(audit.table()))
    if isinstance(task, WordProblem) and task.never_entered:
        print(printable(f"Note: {task.never_entered}."))


main = partial(exit_code, command)


if __name__ == "__main__":
    sys.exit(main())
