"""docs/compiled_automata.md says what the code does: its example, its names and its numbers."""

import json
import re
from pathlib import Path

import pytest

from automata import task_from
from benchmarks.compiled_automata import MACHINES
from implicit.compiled import Wiring, bounds_of, compile_automaton

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compiled_automata.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "benchmarks" / "results" / "compiled_automata.json").read_bytes())


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


def test_stored_words_are_all_right_and_of_the_automata_named() -> None:
    found = RESULTS["automata"]
    assert set(found) == set(MACHINES)
    for name, record in found.items():
        machine = MACHINES[name]()
        assert (record["states"], record["tokens"]) == (machine.state_count, machine.token_count)
        assert record["right"] == record["answers"] == record["converged"] == 100 * 10_000
        assert record["least_margin"] > record["proved_margin"]
