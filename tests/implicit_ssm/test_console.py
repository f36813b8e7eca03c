"""``implicit-ssm`` runs our commands where a user has modules of the same names, and imports theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from implicit_ssm import console

ROOT = Path(__file__).parents[2]
RUN = "import sys; from implicit_ssm.console import main; sys.exit(main())"
SHOW = ("train", "--task", "parity", "--model", "mine:Mine", "--show-config")


def run(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """As the installed script does: its own folder, and not the current one, is on the path."""
    return subprocess.run(
        [sys.executable, "-P", "-c", RUN, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A project with modules of our names, and a model of its own."""
    for name in ("theory.py", "automata.py", "analysis/__init__.py", "implicit/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError('imported')\n")
    (tmp_path / "mine.py").write_text("from implicit import GRU\n\n\nclass Mine(GRU):\n    pass\n")
    return tmp_path


def test_commands_run_beside_modules_of_the_same_names(users_folder: Path) -> None:
    """Also with that folder on PYTHONPATH, as for modules of one's own."""
    shown = run(users_folder, *SHOW, path=str(users_folder))
    assert shown.returncode == 0, shown.stderr
    assert 'model = "mine:Mine"' in shown.stdout
    asked = run(users_folder, "ask", "extraction", "runs/nowhere", path=str(users_folder))
    assert asked.returncode == 2
    assert asked.stderr.startswith("error: run runs/nowhere does not exist"), asked.stderr


def test_in_a_run_folder_nothing_of_it_is_imported(tmp_path: Path) -> None:
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "mine.py").write_text("from implicit import GRU as Mine\n")
    assert "cannot be imported (ModuleNotFoundError" in run(tmp_path, *SHOW).stderr


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


def test_an_unknown_command_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for given in (["trian"], ["lm", "train"]):
        monkeypatch.setattr(sys, "argv", ["implicit-ssm", *given])
        assert console.main() == 2
        sentence = f"error: command {' '.join(given)!r} is unknown; give one of train, ask, certify, check, "
        assert capsys.readouterr().err.startswith(sentence)
