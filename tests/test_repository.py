"""Imports point downward and in no circle; the example of the README runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports


def test_the_contracts_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


README = Path(__file__).parents[1] / "README.md"
ONCE = """import implicit.cells, implicit.cells.mamba2 as mamba2
def test_once(): assert implicit.cells.Mamba2Cell is mamba2.Mamba2Cell"""


def test_pytest_runs_no_module_a_second_time(tmp_path: Path) -> None:
    """Its own import of a file runs it anew, if the package of the file has imported it just before."""
    (tmp_path / "test_once.py").write_text(ONCE)
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "test_once"]
    files = ["implicit/cells/mamba2.py", str(tmp_path / "test_once.py")]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=README.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_python_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    monkeypatch.chdir(tmp_path)  # answers are written into out/
    exec(compile(code, str(README), "exec"), {})
    comments = [line.rpartition("  # ")[2] for line in code.splitlines() if line.startswith("print")]
    # A remark may follow after ": ".
    assert capsys.readouterr().out.splitlines() == [comment.split(": ")[0] for comment in comments]
