"""The commit-msg hook of .pre-commit-config.yaml: which subjects it refuses."""

import re
from pathlib import Path

import pytest

CONFIGURATION = (Path(__file__).parents[1] / ".pre-commit-config.yaml").read_text()
REFUSED = re.search(r"entry: \|-\n(.*?)\n +stages: \[commit-msg\]", CONFIGURATION, re.DOTALL)


def is_refused(subject: str) -> bool:
    """Search as pre-commit's pygrep does with --multiline."""
    assert REFUSED is not None
    message = f"{subject}\n\nWhy: because of that.\n"
    return re.search(REFUSED[1].strip().encode(), message.encode(), re.MULTILINE | re.DOTALL) is not None


TAKEN = [
    "Run kernels in Triton 3.7's interpreter as in 3.6's",
    "Embed the tokens",
    "Say rates as 'per token'",
]
TAKEN += ["Say rates as 'per token'", "A" * 72, "Merge branch 'w-" + "x" * 80 + "'"]
REFUSALS = ["A" * 73, "run kernels", "Run kernels.", "README: where it answers", "Added a test"]
REFUSALS += ["Running kernels", ""]


@pytest.mark.parametrize("subject", TAKEN + REFUSALS)
def test_subjects_are_taken_or_refused(subject: str) -> None:
    assert is_refused(subject) == (subject in REFUSALS)
