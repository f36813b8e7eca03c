"""docs/your_own_analysis.md: the figure is trained, judged and drawn, with fewer training steps."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page import section


def test_the_declaration_of_the_page_is_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", section("Your own figure"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace('"steps": 500', '"steps": 2, "warmup_steps": 1'), names)
    assert names["FIGURE"].verdict(names["results"]).word == "not reproduced"
    assert [row.of for row in names["FIGURE"].rows(names["results"])] == [2, 2]
    assert (tmp_path / "widths.png").is_file()
