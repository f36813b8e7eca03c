"""The areas of the code that mutants are drawn from; ``areas.toml`` lists them."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from automata.errors import unknown_name


@dataclass(frozen=True)
class Area:
    """Some modules with their tests: files or folders from the root of the repository.

    The examples in the modules are run in any case.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self, root: Path) -> list[str]:
        return sorted(python_files(root, self.modules))


AREAS = {
    name: Area(tuple(area["modules"]), tuple(area["tests"]))
    for name, area in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}


def find_area(name: str) -> Area:
    if name not in AREAS:
        raise unknown_name("area", name, AREAS)
    return AREAS[name]


def python_files(root: Path, places: Iterable[str]) -> set[str]:
    """Return the Python files of these files and folders, from the root."""
    paths = [
        path
        for place in places
        for path in ((root / place).rglob("*.py") if (root / place).is_dir() else [root / place])
    ]
    return {str(path.relative_to(root)) for path in paths}
