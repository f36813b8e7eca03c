"""How many tokens per second a word problem samples on one core, batch 4096, length 256.

Beside it a plain Python loop over the transition table, with the generator of the standard library.
"""

import random
from collections.abc import Iterator
from functools import partial

import numpy as np

from automata import WordProblem, make_task
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError

BATCH, LENGTH, TURNS = 4096, 256, 15
LOOPED = 64  # sequences that the loop makes
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
            contenders=(
                Contender("sample", partial(problem.sample, BATCH, LENGTH, rng), allocator="python"),
                *python_loop(problem),
            ),
            turns=TURNS,
            items=BATCH * LENGTH,
            unit="tokens",
        )


def check(problem: WordProblem) -> None:
    """The labels of a sample are those of following the transition table token by token."""
    tokens, labels = problem.sample(64, 32, np.random.default_rng(0))
    followed = follow(problem.table.tolist(), problem.initial_state, tokens.tolist())
    for sequence, (states, expected) in enumerate(zip(followed, labels.tolist(), strict=True)):
        for position, state in enumerate(states):
            if state != expected[position]:
                raise IncorrectError(f"label of token {position} in sequence {sequence} is wrong")


def python_loop(problem: WordProblem) -> tuple[Contender, ...]:
    """The loop as a contender, for problems whose tokens do not depend on the state."""
    if problem.avoid:
        return ()
    table, easy = problem.table.tolist(), problem.easy_tokens
    hard = problem.hard_fraction
    weights = [
        hard / len(problem.token_names) + (token in easy) * (1 - hard) / max(len(easy), 1)
        for token in range(len(problem.token_names))
    ]
    choices = random.Random(0).choices

    def make() -> tuple[list[list[int]], list[list[int]]]:
        tokens = [choices(range(len(weights)), weights, k=LENGTH) for _ in range(LOOPED)]
        return tokens, follow(table, problem.initial_state, tokens)

    return (Contender("Python loop", make, share=LOOPED / BATCH, allocator="python"),)


def follow(table: list[list[int]], initial_state: int, sequences: list[list[int]]) -> list[list[int]]:
    labels = []
    for sequence in sequences:
        state = initial_state
        states = []
        for token in sequence:
            state = table[state][token]
            states.append(state)
        labels.append(states)
    return labels


BENCHMARK = Benchmark(
    "word_problem_throughput",
    "Tokens per second that a word problem samples",
    cases,
    checked="labels are those of following the table",
    headlines=tuple(
        Headline(f"Sampling the word problem of {task}", "Python loop", "sample", {"task": task})
        for task in ("S5", "parity")
    ),
)
