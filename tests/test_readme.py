"""The README's Python example runs as it stands; its make targets install what they need, and no more."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_python_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)  # answers are written into out/
    exec(compile(code, str(README), "exec"), {})
    comments = [line.rpartition("  # ")[2] for line in code.splitlines() if line.startswith("print")]
    # A remark may follow after ": ".
    assert capsys.readouterr().out.splitlines() == [comment.split(": ")[0] for comment in comments]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_demo_installs_no_tools_for_tests() -> None:
    demo, test = (
        subprocess.run(["make", "-n", "-B", target], cwd=README.parent, capture_output=True, text=True).stdout
        for target in ("demo", "test")
    )
    assert "--editable .\n" in demo
    assert "[dev" not in demo
    assert "--editable .\n" in test
    assert "--editable '.[dev," in test
