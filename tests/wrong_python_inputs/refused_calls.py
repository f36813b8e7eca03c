"""Wrong input to functions, in a Python shell: each is refused in one sentence with field, value and remedy.

A row is the call and the words that the sentence must hold: what was wrong, its value, what to do. Commands
have their tables in tests/implicit, tests/analysis and tests/paper_figures.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis.framework.visited_states import in_double_precision, visited_states
from automata import make_task
from automata.errors import InputError
from implicit import Run, SequenceModel, Solve, build_model, load_run
from theory import State, Transition, check_theorem1
from theory.testing import NotApplicableError

TOKENS = torch.tensor([[0, 1, 1], [1, 0, 1]])
PARITY = make_task("parity")
GENERATOR = np.random.default_rng(0)
SIMULTANEOUS, SEQUENTIAL = Solve("simultaneous"), Solve("sequential")


@cache
def run() -> Run:
    return load_run("parity-small")


def model() -> SequenceModel:
    return run().model


@cache
def analysed() -> tuple[Transition, list[State]]:
    """The transition of a token in float64, and two states that the model visits."""
    double = in_double_precision(model())
    return double.transition(1), [visited.state for visited in visited_states(double, TOKENS, 2)]


def state(**parts: Tensor) -> State:
    return {**model().init_state(2), **parts}


def written(self_map: Callable[..., object], update: Callable[..., object] | None = None) -> object:
    """The check of Theorem 1 on a Φ, and a G, written by a user."""
    update = update or (lambda z, s: {"h": s["h"] + z})
    transition = Transition(self_map, update, 2, (("h",),))
    return check_theorem1(transition, [{"h": torch.ones(2).double()}])


def lstm() -> SequenceModel:
    return build_model("lstm", {"d_model": 4}, PARITY)


Row = tuple[Callable[[], object], Sequence[str]]
WIDE = torch.zeros(1, 1, dtype=torch.long).expand(10**7, 10**7)


def assert_refused(call: Callable[[], object], words: Sequence[str]) -> None:
    """The call ends in one sentence, whose remedy follows the fault, with these words."""
    with pytest.raises((InputError, NotApplicableError)) as caught:
        call()
    sentence = str(caught.value)
    assert sentence == " ".join(sentence.split())  # one line
    assert "; " in sentence, sentence  # the remedy follows the fault
    assert all(word in sentence for word in words), sentence


def row_name(part: object) -> str:
    """The words of a row name it."""
    return " … ".join(part) if isinstance(part, list) else ""
