"""docs/language_models.md: its code runs in the order of the page, and its counts are those of the sizes."""

import re
from pathlib import Path
from typing import Any

from tests.docs.page import page

PAGE = page("language_models.md")


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: Any) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, Any] = {"folder": tmp_path / "model"}
    for block in blocks:
        exec(compile(block, "docs/language_models.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "torch.Size([1, 14])"
    assert 200 < float(printed[-2]) < 330
    assert 0 <= float(printed[-1]) <= 1
