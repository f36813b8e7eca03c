"""The tasks by the names that `lm-eval` knows them by, where their files lie, and those of state tracking."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError, unknown_name
from implicit.language.harness.documents import (
    TrackingDocument,
    ball_documents,
    line_documents,
    parity_documents,
    program_documents,
    repl_documents,
    ring_documents,
)
from implicit.language.harness.local_sets import LOCAL_SETS

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

    InputError if the name is unknown, or a number is out of its range.
    """
    if name not in TRACKING_TASKS:
        raise unknown_name("tracking task", name, TRACKING_TASKS)
    check_integer("length", length, 1)
    check_integer("documents", documents, 1)
    rng = np.random.default_rng([check_integer("seed", seed, 0), length, *name.encode()])
    return list(TRACKING_TASKS[name].draw(length, documents, rng))


TASK_FILES = Path(__file__).parent / "tasks"
"""The folder for ``lm_eval --include_path``."""


@dataclass(frozen=True)
class HarnessTask:
    """The task behind a name.

    Attributes:
        sentence: in one line.
        sets: the sets of a folder that it reads.
        tracks: the tasks of state tracking that it draws.
        has_length: whether the length of its documents can be chosen.
    """

    sentence: str
    sets: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()
    has_length: bool = False


def _all_tasks() -> dict[str, HarnessTask]:
    lengths = ", ".join(map(str, LENGTHS))
    tasks = {f"local_{name}": HarnessTask(found.sentence, sets=(name,)) for name, found in LOCAL_SETS.items()}
    tasks["local_sets"] = HarnessTask("the seven above", sets=tuple(LOCAL_SETS))
    for name, found in TRACKING_TASKS.items():
        tasks[f"tracking_{name}"] = HarnessTask(
            f"{found.sentence}; chance 1/{found.choices}", tracks=(name,), has_length=True
        )
    for name in TRACKING_TASKS:
        tasks[f"tracking_{name}_by_length"] = HarnessTask(
            f"tracking_{name} of lengths {lengths}, and their mean", tracks=(name,)
        )
    tasks["state_tracking"] = HarnessTask("the groups by length above", tracks=tuple(TRACKING_TASKS))
    return tasks


HARNESS_TASKS = _all_tasks()
"""All tasks, groups and tags of the task files, by name."""


def check_tasks(names: list[str], length: int | None = None) -> list[HarnessTask]:
    """Return what the names of tasks, groups or tags stand for; ``length`` is another than the usual one."""
    if not names:
        raise InputError("tasks is missing; give names with --tasks, which --list shows")
    for name in names:
        if name not in HARNESS_TASKS:
            raise unknown_name("task", name, HARNESS_TASKS)
        if length is not None and not HARNESS_TASKS[name].has_length:
            raise InputError(
                f"length is {length}, and the length of {name} is not to be chosen; leave it out, or take "
                "one of " + ", ".join(f"tracking_{track}" for track in TRACKING_TASKS)
            )
    for name in names:
        for other in names:
            shared = _leaves(name) & _leaves(other)
            if (names.count(name) > 1 or name != other) and shared:
                raise InputError(f"tasks holds {name} and {other}, which share tasks; give one of the two")
    return [HARNESS_TASKS[name] for name in names]


def _leaves(name: str) -> set[str]:
    """The tasks that a name stands for, which `lm-eval` takes only once."""
    task = HARNESS_TASKS[name]
    lengths = ("",) if task.has_length else tuple(map(str, LENGTHS))
    return {*task.sets, *(f"{track} {length}" for track in task.tracks for length in lengths)}
