"""docs/first_day.md: its script, run as it stands, reaches what the page says."""

import json
import re
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.page import page

PAGE = page("first_day.md")
SECONDS = 60
"""Seconds of one core; the page says how many it took."""


def masked(text: str) -> list[str]:
    """Lines without their numbers, which differ between machines."""
    return re.sub(r"\d+(\.\d+)?(e-\d+)?%?", "#", text).splitlines()


def test_the_script_of_the_page_reaches_its_result(
    run_commands: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.process_time()
    import_module("first_day").main()
    assert time.process_time() - began < SECONDS
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert masked(printed) == masked(shown)

    accuracies = [float(found) for found in re.findall(r"accuracy (\S+) at 256 tokens", printed)]
    assert len(accuracies) == 3
    assert min(accuracies) >= 0.99  # the most frequent answer is right a quarter of the time
    out = Path("out/first_day")
    for seed in range(3):
        found = json.loads((out / f"automata/seed-{seed}/extraction.json").read_text())["result"]
        assert found["verdict"] == "equivalent"
        assert len(found["automaton"]["answers"]) == 4
    theorem1 = json.loads((out / "theorem1/jacobian.json").read_text())["result"]["theorem1"]
    assert theorem1["verdict"] == "does not apply"
    assert theorem1["headline"] == "non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)"

    (table,) = re.findall(r"^\| file \|.*?\n\n", PAGE, flags=re.DOTALL | re.MULTILINE)
    for file in re.findall(r"^\| `([^`]+)`", table, flags=re.MULTILINE):
        assert (out / file).exists(), file
    for figure in ("accuracy/length_generalization", "theorem1/jacobian", "automata/seed-2/extraction"):
        assert (out / f"{figure}.png").read_bytes()[1:4] == b"PNG"
