"""A foreign package under one of our names ends an import with one sentence, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from implicit_ssm import require

ROOT = Path(__file__).parents[2]
ABOVE = {"automata": "theory", "theory": "implicit", "implicit": "analysis", "analysis": "paper_figures"}
"""A package that imports each."""


def import_behind(folder: Path, package: str) -> str:
    """Import a package of ours in a process that finds the folder's packages first; return its last line."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    # -P: the working directory is not on the path.
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import {package}"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()[-1] if done.returncode else ""


@pytest.mark.parametrize("name", ABOVE)
def test_a_foreign_package_that_comes_first(name: str, tmp_path: Path) -> None:
    foreign = tmp_path / name / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text('"""Automata of somebody else."""\n\n__version__ = "9.0.0"\n')
    said = import_behind(tmp_path, ABOVE[name])
    assert said.startswith(
        f"ImportError: '{name}' is not the package of implicit-ssm but {foreign}; rename that"
    )
    assert said.endswith("install implicit-ssm again, from where it came, with --force-reinstall --no-deps")


def test_a_module_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "automata.py").write_text("from implicit_ssm import require\n")
    assert f"but {tmp_path / 'automata.py'}; rename that if it is yours" in import_behind(tmp_path, "theory")


def test_names_that_a_package_does_not_import_are_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "analysis.py").write_text("raise RuntimeError\n")
    assert import_behind(tmp_path, "implicit") == ""


def test_an_overwritten_package_lies_in_our_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip leaves it that installs automata-lib after us: its __init__ among our modules."""
    package = tmp_path / "overwritten"
    package.mkdir()
    (package / "errors.py").write_text("from implicit_ssm import __version__\n")
    (package / "__init__.py").write_text('"""Not ours."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="'overwritten' is not the package of implicit-ssm but"):
        require("overwritten")
    (package / "__init__.py").unlink()  # as pip leaves it that uninstalls automata-lib again
    with pytest.raises(ImportError, match="'overwritten' of implicit-ssm is missing or incomplete"):
        require("overwritten")


def test_no_package_at_all() -> None:
    with pytest.raises(ImportError, match="'no_such_package' of implicit-ssm is missing or incomplete"):
        require("no_such_package")
