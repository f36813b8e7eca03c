"""docs/architecture.md names packages, files and objects: each has to be there."""

import re
from importlib import import_module

import pytest

from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)))
PACKAGES = ("automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks")
PATHS = sorted(name for name in QUOTED if "/" in name and re.fullmatch(r"[\w/.]+", name))
NAMES = sorted(name for name in QUOTED if re.fullmatch(rf"({'|'.join(PACKAGES)})(\.\w+)+", name))
IN_A_RUN_FOLDER = {"checkpoint/"}


def resolved(name: str) -> object:
    """The module or object of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_every_path_is_there_and_every_dotted_name_resolves() -> None:
    assert [path for path in PATHS if path not in IN_A_RUN_FOLDER and not (ROOT / path).exists()] == []
    assert len(PATHS) > 40
    assert None not in [resolved(name) for name in NAMES]


@pytest.mark.parametrize("package", PACKAGES[:5])
def test_every_sub_package_is_explained(package: str) -> None:
    data = {"stored_runs", "results"}
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / package).glob("*/__init__.py")
        if path.parent.name not in data
    }
    questions = {f"analysis/{path.name}" for path in (ROOT / "analysis").iterdir() if path.is_dir()}
    explained = QUOTED | (questions - {"analysis/framework", "analysis/report", "analysis/certificates"})
    assert folders <= explained
