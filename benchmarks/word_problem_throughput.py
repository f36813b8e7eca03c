"""How many tokens a second a word problem samples on one core, batch 4096, length 256."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from automata import WordProblem, make_task
from benchmarks.frame import Benchmark, Case, Contender, IncorrectError

BATCH, LENGTH, TURNS = 4096, 256, 30
TASKS = (
    ("S5", None),
    ("S5", 0.5),
    ("S5-generators", None),
    ("A5xM", 0.1),
    ("parity", None),
    ("dyck-4", None),
)


def cases() -> Iterator[Case]:
    for task, hard_fraction in TASKS:
        problem = make_task(task, hard_fraction)
        rng = np.random.default_rng(0)
        yield Case(
            parameters={
                "task": task,
                "hard_fraction": problem.hard_fraction,
                "batch": BATCH,
                "length": LENGTH,
            },
            check=partial(check, problem),
            contenders=(Contender("sample", partial(problem.sample, BATCH, LENGTH, rng)),),
            turns=TURNS,
            items=BATCH * LENGTH,
            unit="tokens",
        )


def check(problem: WordProblem) -> None:
    """The labels of a sample are those of following the transition table token by token."""
    tokens, labels = problem.sample(64, 32, np.random.default_rng(0))
    for sequence, (read, expected) in enumerate(zip(tokens.tolist(), labels.tolist(), strict=True)):
        state = problem.initial_state
        for position, token in enumerate(read):
            state = int(problem.table[state, token])
            if state != expected[position]:
                raise IncorrectError(f"label of token {position} in sequence {sequence} is wrong")


BENCHMARK = Benchmark("word_problem_throughput", "Tokens a second that a word problem samples", cases)
