"""The README's Python example runs and prints what its comments say."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_python_example() -> None:
    match = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert match
    code = match.group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), {})
    comments = [line.rpartition("  # ")[2] for line in code.splitlines() if line.startswith("print")]
    # A remark may follow what is printed, after ": ".
    assert printed.getvalue().splitlines() == [comment.split(": ")[0] for comment in comments]
