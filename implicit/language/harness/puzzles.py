"""Balls, small programs and sessions of Python, whose answers a program gives (`automata`)."""

from collections.abc import Iterator

import numpy as np

from automata.programs import BallPuzzle, ProgramGrammar, sample_swaps
from automata.programs.grammar import OUTPUT
from automata.repl import SessionFormat, sample_traces
from implicit.language.harness.documents import TrackingDocument

BALLS = 5
PROGRAMS = ProgramGrammar(variables=3, modulus=10, reversible=True)
"""Programs that forget nothing, so that every printed value is uniform and depends on the whole program."""
SESSIONS = SessionFormat(variables=5, spacing="end")
"""Nothing is printed on the way, so that nothing but the swaps tells what the variables hold."""
_SITUATION = (
    f"Balls 1 to {BALLS} lie at places 1 to {BALLS}, each at the place of its number. "
    "To swap two balls is to let them change places, wherever they lie."
)


def ball_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield puzzles of five balls that are swapped, answered with the place of the ball that is named first.

    The question names all balls, the others in a random order, so that its number of tokens does not tell
    which one is asked for. There are ``length`` swaps, each of two balls drawn uniformly.
    """
    numbers = tuple(str(number) for number in range(1, BALLS + 1))
    pairs = sample_swaps(BALLS, (count, length), rng).tolist()
    for row, asked in zip(pairs, rng.integers(1, BALLS + 1, size=count).tolist(), strict=True):
        swaps = tuple((first, second) for first, second in row)
        puzzle = BallPuzzle(BALLS, swaps, asked)
        others = rng.permutation([number for number in numbers if number != str(asked)])
        order = ", ".join([str(asked), *others])
        steps = puzzle.question.rpartition("Where")[0]
        text = f"{_SITUATION}\n{steps}Where do balls {order}, end up, in this order?"
        last = BallPuzzle(BALLS, swaps[-1:], asked).question
        yield TrackingDocument(text, numbers, puzzle.answer - 1, asked - 1, last)


def program_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield small reversible programs with what they print up to a value, answered with its digit.

    Values that are printed before the one asked for are shown, as they would be; they tell nothing of it,
    since a program takes the uniform values at its beginning to uniform ones, one to one. The length counts
    statements beside the first values and the prints; loops and conditions count as one each.
    """
    digits = tuple(map(str, range(PROGRAMS.modulus)))
    for _ in range(count):
        program = PROGRAMS.sample(length, rng)
        asked = int(rng.integers(PROGRAMS.variables))
        printed = program.output.splitlines()
        line, _, value = printed[asked].rpartition(" ")
        text = program.source + "\n".join([*printed[:asked], line])
        statements = program.source.splitlines()
        last = statements[-PROGRAMS.variables - 1].strip()
        first = statements[asked].rpartition(" ")[2]
        assert line.startswith(OUTPUT)
        yield TrackingDocument(text, digits, int(value), int(first), f"{last} {line}")


def repl_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield sessions that swap variables up to the values that they print, answered with the first of these.

    All variables are printed, the others in a random order, so that the number of tokens does not tell which
    one comes first. There are ``length`` swaps of two of five variables.
    """
    names = SESSIONS.variable_names
    values = tuple(str(number) for number in range(1, len(names) + 1))
    for trace in sample_traces(SESSIONS, count, rng, commands=length):
        ((start, end),) = trace.reveal_spans
        variable = names.index(trace.text[:start].rstrip()[-1])
        others = rng.permutation([name for name in names if name != names[variable]])
        order = ", ".join([names[variable], *others])
        print_all = f"print('now', {order}, sep=' ')"
        text = "\n".join([*(f">>> {command}" for command in (*trace.commands[:-1], print_all)), "now"])
        first = trace.states[len(names) - 1][variable]
        answer = values.index(trace.text[start:end])
        yield TrackingDocument(text, values, answer, first - 1, " ".join(trace.commands[-2:]))
