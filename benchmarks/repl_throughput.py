"""How many tokens per second a task of REPL traces draws on one core, by format and shape of batch.

Beside it what one would write first: a loop that makes the text of every session line by line, with the
generator of the standard library, and encodes it with the same tokenizer.
"""

import random
from collections.abc import Iterator
from functools import partial
from itertools import combinations

import numpy as np

from automata import ReplLanguage
from automata.repl import check_with_interpreter
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError

TURNS = 15
SHAPES = ((64, 256), (4096, 256), (64, 4096))
LOOPED = 32  # sessions that the loop makes
FORMATS: dict[str, ReplLanguage] = {
    "three variables, a print after four swaps": ReplLanguage(3),
    "five variables, a print after four swaps": ReplLanguage(5, predict="values"),
    "five variables, elements of S5, a print of all": ReplLanguage(
        5, actions="S5", assignment="whole", reveal="full"
    ),
    "three variables, swaps hidden by if": ReplLanguage(3, hidden="if", reveal_every=1),
    "three variables, swaps hidden by choice": ReplLanguage(3, hidden="choice", reveal_every=1),
}
LOOPED_FORMATS = tuple(FORMATS)[:2]


def cases() -> Iterator[Case]:
    for name, task in FORMATS.items():
        for batch, length in SHAPES:
            rng = np.random.default_rng(0)
            loop = name in LOOPED_FORMATS
            yield Case(
                parameters={"format": name, "batch": batch, "length": length},
                check=partial(check, task, length),
                contenders=(
                    Contender("batch", partial(task.batch, batch, length, rng), allocator="python"),
                    *([python_loop(task, batch, length)] if loop else []),
                ),
                turns=TURNS,
                items=batch * length,
                unit="tokens",
            )


def check(task: ReplLanguage, length: int, sessions: int = 16) -> None:
    """Python's interpreter shows what the rows say, and each target is the token after its own."""
    drawn = task.sessions(sessions, np.random.default_rng(1), length)
    batch = task.batch_of(drawn, length)
    for row in range(sessions):
        trace = drawn.trace(row)
        difference = check_with_interpreter(trace)
        if difference is not None:
            raise IncorrectError(f"session {row}: {difference}")
        tokens = task.tokenizer.encode(trace.text)[: length + 1]
        if batch.tokens[row].tolist() != tokens[:-1] or batch.targets[row].tolist() != tokens[1:]:
            raise IncorrectError(f"the tokens of session {row} are not those of its text")


def python_loop(task: ReplLanguage, batch: int, length: int) -> Contender:
    """Sessions of swaps with prints after every few, as text, then as tokens that fill rows."""
    draw = random.Random(0)
    names = task.form.variable_names
    pairs = list(combinations(range(len(names)), 2))

    def make() -> list[list[int]]:
        rows = []
        for _ in range(LOOPED):
            state = list(range(1, len(names) + 1))
            lines = [f">>> {name} = {value}" for name, value in zip(names, state, strict=True)]
            # a round of k swaps of nine tokens and a print of eleven
            for _ in range(-(-(length + 1) // (9 * task.form.reveal_every + 11))):
                for _ in range(task.form.reveal_every):
                    i, j = draw.choice(pairs)
                    state[i], state[j] = state[j], state[i]
                    lines.append(f">>> {names[i]}, {names[j]} = {names[j]}, {names[i]}")
                shown = draw.randrange(len(names))
                lines.append(f">>> print('{names[shown]}', {names[shown]})")
                lines.append(f"{names[shown]} {state[shown]}")
            rows.append(task.tokenizer.encode("\n".join(lines))[: length + 1])
        return rows

    return Contender("Python loop", make, share=LOOPED / batch, allocator="python")


BENCHMARK = Benchmark(
    "repl_throughput",
    "Tokens per second that a task of REPL traces draws",
    cases,
    checked="the interpreter shows the sessions",
    headlines=tuple(
        Headline(
            f"Drawing sessions of {name}, {batch} × {length}",
            "Python loop",
            "batch",
            {"format": name, "batch": batch, "length": length},
        )
        for name in LOOPED_FORMATS[:1]
        for batch, length in SHAPES[:2]
    ),
)
