"""The tasks of state tracking by name, and their documents: the same for the same seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from automata.checks import check_integer
from automata.errors import unknown_name
from implicit.language.harness.documents import (
    TrackingDocument,
    ball_documents,
    line_documents,
    parity_documents,
    program_documents,
    repl_documents,
    ring_documents,
)

LENGTHS = (4, 8, 16, 32)
"""Steps of the tasks whose accuracy is told by length."""
LENGTH, DOCUMENTS = 16, 200
"""Steps of a document and number of documents, unless others are asked for."""


@dataclass(frozen=True)
class TrackingTask:
    """A kind of documents.

    Attributes:
        sentence: what is tracked, and what makes it easy or hard.
        choices: the number of answers to choose from; chance is one in so many.
        draw: yields documents of a length, so many of them, from a generator.
    """

    sentence: str
    choices: int
    draw: Callable[[int, int, np.random.Generator], Iterator[TrackingDocument]]


TRACKING_TASKS = {
    "parity": TrackingTask("a lamp that is switched or not: parity; solvable", 2, parity_documents),
    "ring": TrackingTask("a cat that walks in a circle of five houses: abelian", 5, ring_documents),
    "s3": TrackingTask(
        "three friends who line up anew, all of S3: solvable", 3, partial(line_documents, "S3")
    ),
    "a5": TrackingTask(
        "five friends who line up anew, all of A5: non-solvable", 5, partial(line_documents, "A5")
    ),
    "s5": TrackingTask(
        "five friends who line up anew, all of S5: non-solvable", 5, partial(line_documents, "S5")
    ),
    "balls": TrackingTask("five balls, two of which are swapped each time: S5", 5, ball_documents),
    "programs": TrackingTask("small programs of three variables that forget nothing", 10, program_documents),
    "repl": TrackingTask("Python sessions that swap two of five variables each time: S5", 5, repl_documents),
}
"""By name, without the ``tracking_`` that the harness puts before it."""


def tracking_documents(
    name: str, length: int = LENGTH, documents: int = DOCUMENTS, seed: int = 0
) -> list[TrackingDocument]:
    """Draw documents of a task, whose states move in so many steps; the same seed draws the same ones.

    Raises:
        InputError: the name is unknown, or a number is out of its range.
    """
    if name not in TRACKING_TASKS:
        raise unknown_name("tracking task", name, TRACKING_TASKS)
    check_integer("length", length, 1)
    check_integer("documents", documents, 1)
    rng = np.random.default_rng([check_integer("seed", seed, 0), length, *name.encode()])
    return list(TRACKING_TASKS[name].draw(length, documents, rng))
