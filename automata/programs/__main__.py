"""Command: show puzzles, or run them in Python and count the wrong answers.

python -m automata.programs
python -m automata.programs --verify 1000
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from automata.checks import check_integer
from automata.command_line import Parser, exit_code
from automata.errors import InputError
from automata.programs.balls import BallPuzzle, Swapped, sample_swaps
from automata.programs.grammar import ProgramGrammar
from automata.programs.running import LIMIT
from automata.programs.verification import Verification, verify_balls, verify_programs

WRONG = 1
"""The exit code if an answer is wrong."""


def command(argv: Sequence[str] | None = None) -> int:
    """Show a puzzle of each kind, or verify so many; return 1 if an answer is wrong."""
    parser = Parser(
        "python -m automata.programs", __doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--verify", type=int, metavar="N", help="run N of each kind, in place of showing one")
    parser.add_argument("--size", type=int, default=20, help="the most statements, and the most swaps")
    parser.add_argument("--balls", type=int, default=5, help="the number of balls")
    parser.add_argument("--variables", type=int, default=3, help="the number of variables")
    parser.add_argument("--depth", type=int, default=2, help="how deep loops and conditions are nested")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    given = parser.parse_args(argv)
    if given.verify is not None:
        check_integer("verify", given.verify, 1)
    if check_integer("size", given.size, 1) > LIMIT:
        raise InputError(f"size is {given.size}; give at most {LIMIT}")
    check_integer("seed", given.seed, 0)
    grammar = ProgramGrammar(variables=given.variables, depth=given.depth)
    rng = np.random.default_rng(given.seed)
    programs = _programs(grammar, given.size, rng)
    puzzles = _puzzles(given.balls, given.size, rng)
    if given.verify is None:
        print(next(programs), next(puzzles), sep="\n")
        return 0
    found = verify_programs(next(programs) for _ in range(given.verify))
    _report(f"small programs of 1 to {given.size} statements", found)
    solved = verify_balls((next(puzzles) for _ in range(given.verify)), given.balls)
    _report(f"puzzles of {given.balls} balls, 1 to {given.size} swaps", solved)
    print("Each ran in an interpreter of its own.")
    return WRONG if found.wrong or solved.wrong else 0


def _programs(grammar: ProgramGrammar, size: int, rng: np.random.Generator) -> Iterator[str]:
    while True:
        yield grammar.sample(int(rng.integers(1, size + 1)), rng).text


def _puzzles(balls: int, size: int, rng: np.random.Generator) -> Iterator[str]:
    while True:
        pairs = sample_swaps(balls, (int(rng.integers(1, size + 1)),), rng).tolist()
        swapped: Swapped = "ball" if rng.random() < 0.5 else "place"
        yield BallPuzzle(balls, tuple(map(tuple, pairs)), int(rng.integers(1, balls + 1)), swapped).text


def _report(label: str, found: Verification) -> None:
    print(f"{label}: {found.count} run, {len(found.wrong)} wrong")
    if found.wrong:
        print(f"the first that is wrong:\n{found.wrong[0]}")


main = partial(exit_code, command)


if __name__ == "__main__":
    sys.exit(main())
