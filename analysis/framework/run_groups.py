"""Which runs are drawn together: those that differ in nothing but their seed."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from analysis.framework.output import RunIdentity
from analysis.framework.palette import Look, distinct_looks, model_looks


class OfRun(Protocol):
    """What was found of a run, and which run that is.

    Example:
        >>> from types import SimpleNamespace
        >>> identity = RunIdentity("a", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> found: OfRun = SimpleNamespace(run=identity)  # accepted by the type checker
    """

    @property
    def run(self) -> RunIdentity:
        """Which run."""
        ...


Found = TypeVar("Found", bound=OfRun)


def seed_groups(runs: Sequence[Found]) -> list[list[Found]]:
    """Group runs that differ in nothing but their seed, in the order in which the first of each is given.

    Runs of one model, task, size and training length with the same seed differ in something else: each of
    these is a group of its own.

    Example:
        >>> from types import SimpleNamespace
        >>> def run(name: str, model: str, seed: int) -> OfRun:
        ...     return SimpleNamespace(run=RunIdentity(name, "parity", model, 178, 32, seed, "0" * 64))
        >>> runs = [run("a", "lstm", 0), run("b", "gru", 0), run("c", "lstm", 1)]
        >>> [len(group) for group in seed_groups(runs)]
        [2, 1]
        >>> [len(group) for group in seed_groups([run("a", "lstm", 0), run("b", "lstm", 0)])]
        [1, 1]
    """
    groups: dict[tuple[object, ...], list[Found]] = {}
    for found in runs:
        run = found.run
        groups.setdefault(
            (run.task, run.model, run.parameters, run.training_length, run.compiled), []
        ).append(found)
    split: list[list[Found]] = []
    for group in groups.values():
        different = len({found.run.seed for found in group}) == len(group)
        split += [group] if different else [[found] for found in group]
    return split


def group_looks(firsts: Sequence[OfRun]) -> list[Look]:
    """Return looks for groups, of which the first runs are given: that of the model; no two are the same.

    Example:
        >>> from types import SimpleNamespace
        >>> found = SimpleNamespace(run=RunIdentity("a", "parity", "lstm", 178, 32, 0, "0" * 64))
        >>> one, other = group_looks([found, found])
        >>> one.color == other.color, one.dashes == other.dashes
        (True, False)
    """
    of_model = model_looks(found.run.model for found in firsts)
    return distinct_looks([of_model[found.run.model] for found in firsts])
