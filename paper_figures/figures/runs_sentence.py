"""The sentence of a caption that names the training runs, their settings and seeds, and those that failed."""

from collections.abc import Mapping, Sequence
from typing import Any


def runs_sentence(runs: Sequence[Mapping[str, Any]]) -> str:
    """Tell how many training runs there are, of what settings and seeds, and which failed.

    Where that would take over a thousand characters, none failed and all kinds have the same seeds, the
    settings are left to the stored results.

    Args:
        runs: as `StoredResults` holds them.

    Example:
        >>> run = {"settings": {"task": "parity", "model": "lstm", "seed": 0}, "status": "done"}
        >>> other = {"settings": {"task": "parity", "model": "lstm", "seed": 1}, "status": "failed"}
        >>> runs_sentence([run])
        'Training runs: 1, none failed: lstm 1 (seed 0).'
        >>> runs_sentence([run, other])
        'Training runs: 2, 1 failed: lstm 1 of 2 (seed 0; failed: 1).'
    """
    if not runs:
        return "No training runs."
    several_tasks = len({run["settings"]["task"] for run in runs}) > 1
    groups: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for run in runs:
        settings = {name: value for name, value in run["settings"].items() if name != "seed"}
        groups.setdefault(str(settings), (settings, []))[1].append(run)
    common = _common([settings for settings, _ in groups.values()])
    failed = sum(run["status"] == "failed" for run in runs)
    listed = "; ".join(
        f"{_kind(settings, common, several_tasks=several_tasks)} {_seeds(group)}"
        for settings, group in groups.values()
    )
    where = f" {COMMON}: {_words(common)}." if common else ""
    seeds = {_seeds(group) for _, group in groups.values()}
    if len(listed) + len(where) > _LONGEST and not failed and len(seeds) == 1:
        listed, where = f"{len(groups)} kinds, listed in the stored results, of each {seeds.pop()}", ""
    return f"Training runs: {len(runs)}, {failed or 'none'} failed: {listed}.{where}"


COMMON = "[A]"
"""Stands in a list of runs for settings that many of them have."""
_LONGEST = 1000
"""Characters of a list that a caption can hold."""
_MANY = 4
"""Settings that so many kinds of runs share, or more, are told once."""


def _common(kinds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of all kinds of runs that have many; none if few are the same.

    Example:
        >>> shared = {"a": 1, "b": 2, "c": None, "d": 4}
        >>> _common([{"model": "lstm", **shared, "e": 1}, {"model": "lstm", **shared, "e": 2}])
        {'a': 1, 'b': 2, 'c': None, 'd': 4}
        >>> _common([{"model": "lstm", **shared}])
        {}
    """
    chosen = [{name: kind[name] for name in kind if name not in ("task", "model")} for kind in kinds]
    many = [settings for settings in chosen if len(settings) >= _MANY]
    if len(many) < 2:
        return {}
    first, *others = many
    same = {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }
    return same if len(same) >= _MANY else {}


def _kind(settings: Mapping[str, Any], common: Mapping[str, Any], *, several_tasks: bool) -> str:
    """Name a kind of run: the model, the task if there are several, and its settings."""
    rest = {name: value for name, value in settings.items() if name not in ("task", "model")}
    words = [settings["model"], *([f"on {settings['task']}"] if several_tasks else [])]
    if common and all(name in rest and rest[name] == value for name, value in common.items()):
        rest = {name: value for name, value in rest.items() if name not in common}
        words.append(COMMON)
    return " ".join([*words, *([_words(rest)] if rest else [])])


def _words(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={'none' if value is None else value}" for name, value in settings.items())


def _seeds(group: Sequence[Mapping[str, Any]]) -> str:
    """How many runs of one kind there are, with their seeds and those that failed."""
    done = sorted(run["settings"]["seed"] for run in group if run["status"] == "done")
    failed = sorted(run["settings"]["seed"] for run in group if run["status"] != "done")
    words = [f"seed{'s' * (len(done) > 1)} {', '.join(map(str, done))}"] if done else []
    if failed:
        words.append(f"failed: {', '.join(map(str, failed))}")
    count = f"{len(done)} of {len(group)}" if failed else f"{len(done)}"
    return f"{count} ({'; '.join(words)})"
