"""docs/compiled_automata.md says what the code does: its example, its names and its numbers."""

import json
import math
import re
from pathlib import Path

import pytest

from automata import task_from
from automata.machines.mealy import MealyMachine
from benchmarks.compiled_automata import MACHINES
from implicit.compiled import Gains, Wiring, bounds_of, compile_automaton
from implicit.compiled.weights import Places, constants_for, weights_of

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


@pytest.mark.parametrize("name", ["parity", "S3", "random-0"])
def test_number_of_weights_that_are_neither_0_nor_1(name: str) -> None:
    wiring = Wiring.one_hot(MACHINES[name]())
    weights = weights_of(wiring, constants_for(wiring, Gains()))
    count = sum(int(((weight != 0) & (weight != 1)).sum()) for weight in weights.values())
    n, m, tokens = wiring.memory, wiring.latent, wiring.tokens
    heads = len(weights["mixers.0.D"])
    assert count == (3 * n + m + 2) * tokens + m + 3 * heads  # the constants' biases are 1
    assert "(3n + m + 2)|Σ| + m weights, and three for each" in PAGE


def test_sizes() -> None:
    flips = MealyMachine(
        [[0, 1] * 12, [1, 0] * 12], [[0, 1] * 12, [1, 0] * 12]
    )  # more tokens than coordinates
    for machine in (flips, *(MACHINES[name]() for name in ("parity", "S3", "random-0", "random-3"))):
        wiring = Wiring.one_hot(machine)
        places, w = Places.of(wiring), math.isqrt(wiring.memory)
        k = w * (math.ceil(wiring.memory / w) + 1)
        assert k <= wiring.memory + 2 * math.sqrt(wiring.memory)
        least = max(k, wiring.latent, wiring.tokens)
        assert least <= places.d_model < least + w
        if machine is not flips:
            assert places.inner == places.d_model * wiring.tokens
    assert (Places.of(Wiring.one_hot(flips)).d_model, Places.of(Wiring.one_hot(flips)).inner) == (24, 72)


def test_stored_words_are_all_right_and_of_the_automata_named() -> None:
    found = RESULTS["automata"]
    assert set(found) == set(MACHINES)
    for name, record in found.items():
        machine = MACHINES[name]()
        assert (record["states"], record["tokens"]) == (machine.state_count, machine.token_count)
        assert record["right"] == record["answers"] == record["converged"] == 100 * 10_000
        assert record["least_margin"] > record["proved_margin"]
