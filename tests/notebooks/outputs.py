"""The stored outputs of a notebook against those of executing it again: what may differ, and why."""

import re
from collections.abc import Iterator
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

WEIGHTS = re.compile(r"weights of SHA-256 [0-9a-f]{64}")
"""The hash of weights, which rounding elsewhere changes where a notebook makes the model itself."""

TRAINED = 0.08
"""Accuracies of the control that the notebook trains: training on another processor rounds otherwise, and 640
answers, as many as the last ten tokens of 64 sequences, have a standard deviation of 0.02."""
ROUNDING = 1e-6
"""Numbers below this are errors of rounding, of which only the order of magnitude is the same elsewhere."""
MAGNITUDES = 1000.0
LAST_DIGIT = 0.6
"""Of the second digit, or of the third where there are more: 6% or 0.6% for rounding elsewhere."""


def differences(stored: Any, executed: Any) -> list[str]:
    """What a reader of the stored notebook would be told wrongly; empty if nothing."""
    found = []
    for number, (one, other) in enumerate(zip(code(stored), code(executed), strict=True), start=1):
        trained = "train(" in one.source
        found += [
            f"cell {number}: {sentence}" for sentence in text_differences(text(one), text(other), trained)
        ]
    return found


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text(cell: Any) -> str:
    """All that a cell printed, and its value: a caption in its own words, not as an object."""
    parts = []
    for output in cell.outputs:
        value = output.get("data", {})
        parts.append(output.get("text", "") or value.get("text/markdown", "") or value.get("text/plain", ""))
    return WEIGHTS.sub("weights …", "".join(parts))


def text_differences(stored: str, executed: str, trained: bool) -> Iterator[str]:
    """Lines whose words differ, or whose numbers differ by more than they may."""
    lines, again = stored.splitlines(), executed.splitlines()
    if len(lines) != len(again):
        yield f"{len(lines)} lines, not {len(again)}"
        return
    for one, other in zip(lines, again, strict=True):
        numbers, fresh = NUMBER.findall(one), NUMBER.findall(other)
        same = NUMBER.sub("#", one) == NUMBER.sub("#", other)
        if not same or not all(near(a, b, trained) for a, b in zip(numbers, fresh, strict=True)):
            yield f"{one!r} is stored, {other!r} is found"


def near(one: str, other: str, trained: bool) -> bool:
    """Whether two printed numbers are the same but for what another processor may change."""
    if one == other:
        return True
    a, b = float(one), float(other)
    if "." not in one + other and "e" not in one + other:  # counts, seeds, tokens and states are exact
        return False
    if max(abs(a), abs(b)) < ROUNDING:
        return a > 0 and b > 0 and 1 / MAGNITUDES < a / b < MAGNITUDES
    digits = len(re.sub(r"e.*|\D", "", other).lstrip("0"))
    return abs(a - b) <= (TRAINED if trained else LAST_DIGIT * 10.0 ** -min(digits - 1, 2) * abs(b))
