"""The tasks that have names, by name."""

from automata.checks import check_number, check_type
from automata.errors import InputError, unknown_name
from automata.tasks.interface import Task, with_specification
from automata.tasks.named_tasks import OTHER_TASKS, WORD_PROBLEMS
from automata.tasks.word_problem import WordProblem

TASKS = {entry.name: entry for entry in (*WORD_PROBLEMS, *OTHER_TASKS)}
"""The registry, by name."""
LISTED = "python -m implicit.train --list and automata.task_names() list all"
"""Where the names stand."""


def registered_task(name: str, hard_fraction: float | None = None) -> Task:
    """Return the task of this name, of whatever kind.

    Args:
        name: one of ``task_names()``.
        hard_fraction: as for ``make_task``.

    Raises:
        InputError: as for ``make_task``, or ``hard_fraction`` is below 1 for a task that is no word problem.

    Example:
        >>> registered_task("repl-3-reveals")
        <ReplLanguage repl-3-reveals: 3 variables, 15 tokens>
    """
    check_type("task", name, str, "give a name such as 'parity'; automata.task_names() lists them")
    if name not in TASKS:
        raise unknown_name("task", name, TASKS, LISTED)
    entry = TASKS[name]
    fraction = 1.0 if hard_fraction is None else check_number("hard_fraction", hard_fraction)
    options = {} if fraction == 1 else {"hard_fraction": fraction}
    if options and entry in OTHER_TASKS:
        raise InputError(f"hard_fraction is {fraction} but {name} is no word problem; leave it out")
    task = entry.build(name=entry.name, description=entry.description, **options)
    return with_specification(task, name if fraction == 1 else {"name": name, "hard_fraction": fraction})


def make_task(name: str, hard_fraction: float | None = None) -> WordProblem:
    """Return the word problem of this name.

    ``automata.tasks.specification.task_from`` takes the names of the other tasks too.

    Args:
        name: one of ``task_names()`` that is a word problem.
        hard_fraction: the probability that a token is drawn uniformly from all tokens instead of being the
            identity (in ``A5xM``, ``A5-generatorsxM`` and ``S3xM``: the identity of the group beside a
            uniform element of M); 1 if left out.

    Raises:
        InputError: the name is unknown (the nearest one is named) or is that of another kind of task, or
            ``hard_fraction`` is not in [0, 1] or below 1 for a task without an identity among its tokens.

    Example:
        >>> make_task("S5", hard_fraction=0.5)
        <WordProblem S5: 120 tokens, 120 states>
        >>> make_task("partiy")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: task 'partiy' is unknown; did you mean 'parity'? ... list all
    """
    task = registered_task(name, hard_fraction)
    if not isinstance(task, WordProblem):
        raise InputError(f"task {name!r} is no word problem; make it with task_from({name!r})")
    return task


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks: word problems, the easier ones first, then the other kinds.

    Example:
        >>> task_names()[:3]
        ('parity', 'Z60', 'S3')
    """
    return tuple(TASKS)


def describe_tasks() -> str:
    """Return a line for each task: its name and what it stands for.

    Example:
        >>> print(describe_tasks().splitlines()[0])
        parity             running parity of the ones; tokens 0 and 1; solvable
    """
    width = max(map(len, TASKS))
    return "\n".join(f"{entry.name:<{width}}  {entry.description}" for entry in TASKS.values())
