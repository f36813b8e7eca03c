"""A line of the registry of tasks: a name, what it stands for, and how the task is made."""

from collections.abc import Callable
from dataclasses import dataclass

from automata.errors import InputError
from automata.tasks.interface import Task


@dataclass(frozen=True)
class TaskEntry:
    """One line of the registry.

    Attributes:
        name: what ``make_task`` takes.
        description: tokens, labels, and what the task stands for.
        build: makes the task from name, description and hard fraction.

    Example:
        >>> from automata.tasks.registry import TASKS
        >>> TASKS["S5"].description
        'product of permutations of five; all 120 are tokens; non-solvable, NC1-complete'
    """

    name: str
    description: str
    build: Callable[[str, str, float], Task]


def refuse_hard_fraction(name: str, hard_fraction: float) -> None:
    """Refuse a share of hard tokens for a task that is no word problem.

    Raises:
        InputError: if it is below 1.

    Example:
        >>> refuse_hard_fraction("repl-3", 0.5)
        Traceback (most recent call last):
        automata.errors.InputError: hard_fraction is 0.5 but repl-3 is no word problem; leave it out
    """
    if hard_fraction != 1:
        raise InputError(f"hard_fraction is {hard_fraction} but {name} is no word problem; leave it out")
