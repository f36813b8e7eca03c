"""docs/compiled_automata.md says what the code does: its example, its names and its numbers."""

import re
from pathlib import Path

import pytest

from automata import task_from
from implicit.compiled import Wiring, bounds_of, compile_automaton

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compiled_automata.md").read_text(encoding="utf-8")


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = ("tensor([[1, 0, 1]])", "tensor([[0.1000, 0.9000],\n        [0.8200, 0.1800]]")
    for example, expected in zip(examples, printed, strict=True):
        exec(compile(example, "docs/compiled_automata.md", "exec"), {})
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("name", ["parity", "S3", "S5-generators"])
def test_sweeps_that_are_proved(name: str) -> None:
    machine = task_from(name).machine()
    assert machine is not None
    extra = bounds_of(compile_automaton(machine), Wiring.one_hot(machine)).extra_sweeps(1e-4)
    shown = {"parity": "parity", "S3": "S₃", "S5-generators": "S₅"}[name]
    assert f"L + {extra} ({shown})" in " ".join(PAGE.split())
