"""docs/what_can_be_tracked.md and docs/error_control.md name their witnesses; each has to be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "what_can_be_tracked.md").read_text(encoding="utf-8")
ERRORS_PAGE = (ROOT / "docs" / "error_control.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE + ERRORS_PAGE, flags=re.DOTALL))
def test_the_code_of_the_page_runs(code: str) -> None:
    exec(code, {})
