"""Texts of puzzles against the interpreter: is what they say the answer what Python prints?

Nothing is taken from whoever made the text: a puzzle of balls is read from its words and written as a Python
program, and a small program is its text up to the output. Each runs in an interpreter of its own.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from automata.checks import check_type, shown
from automata.errors import InputError
from automata.programs.balls import BallPuzzle, Swapped
from automata.programs.grammar import OUTPUT
from automata.programs.running import LIMIT, statement_bound

_SWAP = re.compile(r"swap (ball|place) (\d+) and (\d+)(?:, |\. )")
_QUESTION = re.compile(r"Where does ball (\d+) end up\? (\d+)")
_SECONDS = 60.0


@dataclass(frozen=True)
class Verification:
    """The result of a comparison.

    Attributes:
        count: how many texts were compared.
        wrong: those whose answer is not what Python printed.
    """

    count: int
    wrong: tuple[str, ...]


def verify_programs(texts: Iterable[str]) -> Verification:
    r"""Run small programs, each in a fresh interpreter, and compare what they print with the text's end.

    A text is a program and the lines that it is said to print, which begin with "Final ". InputError if a
    text holds no output, or its program is not of the kind that is sure to end.

    Example:
        >>> right, wrong = 'x = 3\nprint("Final x:", x)\nFinal x: 3\n', 'print("Final x:", 4)\nFinal x: 5\n'
        >>> verify_programs([right, wrong]) == Verification(2, (wrong,))
        True
    """

    def is_right(text: str) -> bool:
        source, output = source_and_output(text)
        if statement_bound(source) > LIMIT:
            raise InputError(
                f"texts holds a program that may execute more than {LIMIT} lines; give shorter ones"
            )
        return printed_by_python(source) == output

    return _verified(texts, is_right)


def verify_balls(texts: Iterable[str], balls: int) -> Verification:
    """Solve puzzles of balls by a Python program each, in a fresh interpreter, and compare the answers.

    InputError if a text is no such puzzle.

    Example:
        >>> verify_balls(["swap ball 1 and 2. Where does ball 2 end up? 1"], balls=5)
        Verification(count=1, wrong=())
    """

    def is_right(text: str) -> bool:
        puzzle, answer = puzzle_and_answer(text, balls)
        return printed_by_python(puzzle.source) == f"{answer}\n"

    return _verified(texts, is_right)


def _verified(texts: Iterable[str], is_right: Callable[[str], bool]) -> Verification:
    check_type("texts", texts, Iterable, "give several texts")
    answers = [(text, is_right(text)) for text in texts]
    return Verification(len(answers), tuple(text for text, right in answers if not right))


def source_and_output(text: str) -> tuple[str, str]:
    """Cut a text into the program and what it is said to print; InputError if the latter is lacking."""
    check_type("text", text, str, "give that of a program and its output")
    source, newline, output = text.partition(f"\n{OUTPUT}")
    if not newline:
        raise InputError(f"text {shown(text[-30:])} holds no line that begins with {OUTPUT!r}; give it whole")
    return source + "\n", OUTPUT + output


def puzzle_and_answer(text: str, balls: int) -> tuple[BallPuzzle, int]:
    """Read a puzzle of balls from its words; InputError if it is none."""
    check_type("text", text, str, "give that of a puzzle")
    swaps: list[tuple[int, int]] = []
    swapped = "ball"
    position = 0
    while found := _SWAP.match(text, position):
        swapped = found[1]
        swaps.append((int(found[2]), int(found[3])))
        position = found.end()
    question = _QUESTION.fullmatch(text, position)
    if question is None:
        raise InputError(
            f"text holds {shown(text[position : position + 30])} at position {position}, which is no puzzle; "
            "give swaps, the question and its answer"
        )
    kind: Swapped = "place" if swapped == "place" else "ball"
    puzzle = BallPuzzle(balls, tuple(swaps), int(question[1]), kind)
    if not text.startswith(puzzle.question):  # such as swaps of balls and of places together
        raise InputError(f"text {shown(text)} is no puzzle as it is written; give {shown(puzzle.question)}")
    return puzzle, int(question[2])


def printed_by_python(source: str) -> str:
    """Return what a program prints in a fresh interpreter, with an isolated environment (``python -I -S``).

    InputError if it fails, or does not end within a minute.
    """
    check_type("source", source, str, "give the text of a program")
    if re.search("[\ud800-\udfff]", source):
        raise InputError("source holds half of a pair of surrogates, which no file can; leave it out")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "utf8", "-"],  # an argument could not be as long as a program
            input=source,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"source runs for more than {_SECONDS:g} seconds; give one that ends") from None
    if done.returncode:
        raise InputError(f"source fails ({' '.join(done.stderr.split())[-80:]}); mend it")
    return done.stdout
