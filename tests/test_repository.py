"""Imports point downward and in no circle; the example of the README runs."""

import re
from pathlib import Path

import pytest
from importlinter.cli import lint_imports


def test_the_contracts_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


README = Path(__file__).parents[1] / "README.md"


def test_python_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    monkeypatch.chdir(tmp_path)  # answers are written into out/
    exec(compile(code, str(README), "exec"), {})
    comments = [line.rpartition("  # ")[2] for line in code.splitlines() if line.startswith("print")]
    # A remark may follow after ": ".
    assert capsys.readouterr().out.splitlines() == [comment.split(": ")[0] for comment in comments]
