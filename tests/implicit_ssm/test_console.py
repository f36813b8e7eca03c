"""Commands and imports beside a user's modules of the same names, in processes of their own."""

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from implicit_ssm import console, require

ROOT = Path(__file__).parents[2]


def run_python(folder: Path, code: str, *arguments: str, first: bool = False) -> CompletedProcess[str]:
    """Run code with the folder before ours on the path, or not on it: -P leaves the current one out."""
    path = os.pathsep.join([str(folder), str(ROOT)] if first else [str(ROOT)])
    command = [sys.executable, "-P", "-c", code, *arguments]
    return run(command, env={**os.environ, "PYTHONPATH": path}, cwd=folder, capture_output=True, text=True)


RUN = """
import os, sys; from implicit_ssm.console import main
for folder, *sys.argv[1:] in {commands}:
    os.chdir(folder)
    try:
        main()
    except SystemExit as ended:
        assert (ended.code or 0) == {code}
"""
SHOW = ("train", "--task", "parity", "--model", "mine:Mine", "--show-config")


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A project with modules of our names, and a model of its own."""
    for name in ("theory.py", "automata.py", "analysis/__init__.py", "implicit/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError('imported')\n")
    (tmp_path / "mine.py").write_text("from implicit import GRU\n\n\nclass Mine(GRU):\n    pass\n")
    return tmp_path


def test_commands_run_beside_modules_of_the_same_names(users_folder: Path) -> None:
    done = run_python(users_folder, RUN.format(commands=[(".", *SHOW), (".", "ask")], code=0), first=True)
    assert done.returncode == 0, done.stderr
    shown, _, listed = done.stdout.partition("implicit-ssm ask … ")
    assert 'model = "mine:Mine"' in shown
    assert "\njacobian RUN " in listed


def test_what_is_not_found_in_the_current_folder(tmp_path: Path) -> None:
    """Neither optional packages, of which `torch` asks for both, nor code of one's own in a run folder."""
    for name in ("opt_einsum", "pynvml"):
        (tmp_path / f"{name}.py").write_text("print('imported')\n")
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / name).touch()
    place = tmp_path / "run/analysis/certify_words"
    place.mkdir(parents=True)
    (place / "mine.py").write_text("from implicit import GRU as Mine\n")
    commands = [(".", "ask", "extraction", "runs/nowhere"), (str(place), *SHOW)]
    done = run_python(tmp_path, RUN.format(commands=commands, code=2))
    assert (done.returncode, done.stdout) == (0, "")
    nowhere, not_found = done.stderr.splitlines()
    assert nowhere.startswith("error: run runs/nowhere does not exist")
    assert "cannot be imported (ModuleNotFoundError" in not_found


def test_every_command_is_listed_and_is_a_module_with_a_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["implicit-ssm"])
    assert console.main() == 0
    listed = capsys.readouterr().out
    for name, (module, purpose) in console.COMMANDS.items():
        assert f"  {name:<12} {purpose}\n" in listed
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def test_unknown_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["trian"], ["lm", "train"]):
        monkeypatch.setattr(sys, "argv", ["implicit-ssm", *given])
        assert console.main() == 2
        sentence = f"error: command {' '.join(given)!r} is unknown; give one of train, ask, certify, check, "
        assert capsys.readouterr().err.startswith(sentence)


ABOVE = {"automata": "theory", "theory": "implicit", "implicit": "analysis", "analysis": "paper_figures"}
"""A package that imports each."""


def import_behind(folder: Path, package: str) -> str:
    """Import a package of ours in a process that finds the folder's packages first; return its last line."""
    done = run_python(folder, f"import {package}", first=True)
    return done.stderr.splitlines()[-1] if done.returncode else ""


@pytest.mark.parametrize("name", ABOVE)
def test_a_foreign_package_that_comes_first(name: str, tmp_path: Path) -> None:
    foreign = tmp_path / name / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text('"""Automata of somebody else."""\n\n__version__ = "9.0.0"\n')
    said = import_behind(tmp_path, ABOVE[name])
    named = f"ImportError: '{name}' is not the package of implicit-ssm but {foreign}; rename that"
    assert said.startswith(named)
    assert said.endswith("install implicit-ssm again, from where it came, with --force-reinstall --no-deps")


def test_a_module_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "automata.py").write_text("from implicit_ssm import require\n")
    assert f"but {tmp_path / 'automata.py'}; rename that if it is yours" in import_behind(tmp_path, "theory")


def test_names_that_a_package_does_not_import_are_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "analysis.py").write_text("raise RuntimeError\n")
    assert import_behind(tmp_path, "implicit") == ""


def test_an_overwritten_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
