"""The outcomes of the mutants, in one JSON file that several commands may write to, and the table of it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from implicit.runs.files import write_bytes

AIM = 0.9  # share of the mutants of an area that tests should notice, the equivalent ones left out


@dataclass(frozen=True)
class Score:
    """The outcomes of the mutants of an area.

    A mutant on which tests take too long is noticed as well. Equivalent ones behave as the original does
    wherever it matters, each for a reason that is stored. ``at_once`` counts those noticed before tests were
    written for others.
    """

    mutants: int
    killed: int
    timed_out: int
    survived: int
    equivalent: int
    at_once: int

    @property
    def share(self) -> float:
        """The share of those that are not equivalent that is noticed; 1 if there are none."""
        return self._share(self.killed + self.timed_out)

    @property
    def share_at_once(self) -> float:
        """The share of them that was noticed when they were first tried."""
        return self._share(self.at_once)

    def _share(self, noticed: int) -> float:
        counted = self.mutants - self.equivalent
        return noticed / counted if counted else 1.0


class Results:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """Return the mutants of every area by their names."""
        return json.loads(self.path.read_bytes()) if self.path.is_file() else {"areas": {}}

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        with FileLock(self.path.with_suffix(".lock")):
            content = self.read()
            yield content
            write_bytes(self.path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())

    def add(self, area: str, name: str, entry: Mapping[str, Any]) -> None:
        """Store what became of a mutant; what became of it at first and a reason that was given stay."""
        with self._changed() as content:
            mutants = content["areas"].setdefault(area, {})
            before = mutants.get(name, {})
            stays = {"at_first": _at_first(before)} if before else {}
            if "equivalent" in before:
                stays["equivalent"] = before["equivalent"]
            mutants[name] = {**entry, **stays}

    def keep(self, area: str, names: set[str]) -> None:
        """Forget the mutants of an area that are not among these."""
        with self._changed() as content:
            mutants = content["areas"].get(area, {})
            content["areas"][area] = {name: entry for name, entry in mutants.items() if name in names}

    def explain(self, name: str, reason: str) -> None:
        with self._changed() as content:
            found = [mutants[name] for mutants in content["areas"].values() if name in mutants]
            if not found:
                raise KeyError(name)
            for entry in found:
                entry["equivalent"] = reason

    def scores(self) -> dict[str, Score]:
        return {area: _score(mutants) for area, mutants in self.read()["areas"].items()}

    def table(self) -> str:
        lines = [
            "| area | mutants | killed | timed out | survived | equivalent | at first sight | noticed |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for area, score in sorted(self.scores().items()):
            lines.append(
                f"| {area} | {score.mutants} | {score.killed} | {score.timed_out} | {score.survived} | "
                f"{score.equivalent} | {score.share_at_once:.0%} | {score.share:.0%} |"
            )
        return "\n".join(lines)


NOTICED = ("killed", "timed out")


def _at_first(entry: Mapping[str, Any]) -> str:
    """The outcome of a mutant when it was first tried."""
    return str(entry.get("at_first", entry["outcome"]))


def _score(mutants: Mapping[str, Mapping[str, Any]]) -> Score:
    missed = [entry for entry in mutants.values() if entry["outcome"] not in NOTICED]
    found = Counter(entry["outcome"] for entry in mutants.values())
    equivalent = sum("equivalent" in entry for entry in missed)
    at_once = sum(_at_first(entry) in NOTICED for entry in mutants.values())
    survived = len(missed) - equivalent
    return Score(len(mutants), found["killed"], found["timed out"], survived, equivalent, at_once)
