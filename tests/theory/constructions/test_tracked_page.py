"""docs/what_can_be_tracked.md and docs/error_control.md name their witnesses; each has to be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "what_can_be_tracked.md").read_text(encoding="utf-8")
ERRORS_PAGE = (ROOT / "docs" / "error_control.md").read_text(encoding="utf-8")
FOLDERS = (ROOT / "tests" / "theory", ROOT / "tests" / "analysis" / "error_control")
TESTS = "\n".join(
    path.read_text(encoding="utf-8") for folder in FOLDERS for path in folder.rglob("test_*.py")
)


@pytest.mark.parametrize("witness", sorted(set(re.findall(r"`(test_\w+?)_?…?`", PAGE + ERRORS_PAGE))))
def test_every_named_witness_is_one_test(witness: str) -> None:
    assert len(re.findall(rf"^def {witness}", TESTS, flags=re.MULTILINE)) == 1


def test_every_witness_of_the_table_is_explained() -> None:
    table, rest = PAGE.split("## 1. Assumptions")
    named = set(re.findall(r"\bW\d+\b", table))
    assert named == {f"W{number}" for number in range(1, 11)}
    assert named == set(re.findall(r"\*\*(W\d+)\*\*", rest)) | set(
        re.findall(r"\(\*\*(W\d+)\*\* `test_", rest)
    )


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE + ERRORS_PAGE, flags=re.DOTALL))
def test_the_code_of_the_page_runs(code: str) -> None:
    exec(code, {})
