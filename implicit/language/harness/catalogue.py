"""The tasks by the names that `lm-eval` knows them by, and where their files lie."""

from dataclasses import dataclass
from pathlib import Path

from automata.errors import InputError, unknown_name
from implicit.language.harness.local_sets import LOCAL_SETS
from implicit.language.harness.tracking import LENGTHS, TRACKING_TASKS

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
