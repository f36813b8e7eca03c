"""Faulty objects in a program of one's own: under `run_command` one sentence and exit code 2 as well.

The tables for the commands themselves stand in tests/implicit, tests/analysis and tests/paper_figures.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from automata import (
    DFA,
    Monoid,
    ProbabilisticAutomaton,
    make_task,
    parity_dfa,
    permutation_group,
    regular_expression_dfa,
)
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.ops.ssd import ssd
from tests.solving import solved

Refuses = Callable[[Callable[..., None], list[str]], str]


def _automaton(columns: list[list[float]]) -> ProbabilisticAutomaton:
    return ProbabilisticAutomaton(["even", "odd"], initial=[1, 0], actions={"flip": columns})


def _solve(tokens: list[list[int]], mode: str = "simultaneous") -> object:
    model = load_run("parity").model
    return solved(model, torch.tensor(tokens, dtype=torch.long), mode=mode)  # type: ignore[arg-type]


def _scan(heads: int, groups: int, length: int = 3) -> object:
    x, B = torch.ones(1, length, heads, 2), torch.ones(1, length, groups, 2)
    return ssd(x, torch.ones(1, length, heads), -torch.ones(heads), B, B)


OBJECTS: dict[str, tuple[Callable[[], object], list[str]]] = {
    # 0·(1·2) = 0 and (0·1)·2 = 1
    "non-associative table": (lambda: Monoid([[0, 1, 2], [1, 0, 0], [2, 0, 1]]), ["associative", "1", "2"]),
    "table that is not square": (lambda: Monoid([[0, 1], [1, 0], [0, 0]]), ["[3, 2]", "square"]),
    "table without identity": (lambda: Monoid([[0, 0], [0, 0]]), ["identity"]),
    "table entry out of range": (lambda: Monoid([[0, 1], [1, 2]]), ["2"]),
    "no permutation": (lambda: permutation_group([(1, 1, 3)]), ["(1, 1, 3)"]),
    "non-stochastic matrix": (lambda: _automaton([[0.5, 0.5], [0.4, 0.5]]), ["flip", "0.9"]),
    "negative probability": (lambda: _automaton([[1.5, 0.0], [-0.5, 1.0]]), ["flip", "-0.5"]),
    "unknown symbol of a word": (lambda: parity_dfa().accepts("012"), ["2"]),
    "transition to no state": (
        lambda: DFA(
            states=("even",),
            alphabet=("1",),
            transitions={"even": {"1": "odd"}},
            initial="even",
            accepting=frozenset(),
        ),
        ["odd"],
    ),
    "broken regular expression": (lambda: regular_expression_dfa("(0|1"), ["(0|1"]),
    "sample of length 0": (lambda: make_task("S5").sample(2, 0, np.random.default_rng(0)), ["length is 0"]),
    "sample of no sequence": (lambda: make_task("S5").sample(0, 2, np.random.default_rng(0)), ["batch is 0"]),
    "token outside the task": (lambda: make_task("parity").states(np.array([[0, 2]])), ["2"]),
    "token outside the vocabulary": (lambda: _solve([[0, 2]]), ["token 2", "0 to 1"]),
    "negative token": (lambda: _solve([[0, -1]]), ["token -1", "0 to 1"]),
    "empty sequence": (lambda: _solve([[]]), ["(1, 0)"]),
    "unknown mode": (lambda: _solve([[0]], mode="serial"), ["'serial'", "'sequential'"]),
    "negative tolerance": (lambda: Stopping(rtol=-1.0), ["rtol is -1.0"]),
    "no iterations": (lambda: Stopping(max_iterations=0), ["max_iterations is 0"]),
    "groups that do not divide": (lambda: _scan(heads=3, groups=2), ["2 groups", "3 heads"]),
    "scan of nothing": (lambda: _scan(heads=2, groups=1, length=0), ["at least one"]),
    "unknown stored run": (lambda: load_run("partiy"), ["'partiy'", "'parity'"]),
}


@pytest.mark.parametrize(("build", "words"), OBJECTS.values(), ids=OBJECTS)
def test_object(
    build: Callable[[], object],
    words: list[str],
    refuses: Refuses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    def main(_: object) -> None:
        build()

    sentence = refuses(main, [])
    assert all(word in sentence for word in words), sentence
