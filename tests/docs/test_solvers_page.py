"""docs/solvers.md: its code runs, and what it says of the choice of a mode is what is chosen."""

import re

import pytest
import torch

from implicit.fixed_point import Anderson, DampedPicard
from implicit.gradients import Phantom, Unrolled
from implicit.modes import Solve, chosen_mode
from implicit.modes.solve import MOST_IN_WINDOWS, SHORTEST_IN_WINDOWS
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_code_runs(code: str) -> None:
    exec(code, {})


@pytest.mark.parametrize(
    ("batch", "length", "gradient", "one_launch", "expected"),
    [
        (1, 1, False, False, "sequential"),
        (1, 64, False, True, "sequential"),
        (MOST_IN_WINDOWS, SHORTEST_IN_WINDOWS, False, False, "windowed"),
        (MOST_IN_WINDOWS + 1, 4096, False, False, "sequential"),
        (1, SHORTEST_IN_WINDOWS - 1, False, False, "sequential"),
        (64, 8, True, False, "sequential"),
    ],
)
def test_the_choice_is_that_of_the_list(
    batch: int, length: int, gradient: bool, one_launch: bool, expected: str
) -> None:
    start = torch.zeros(batch, length, 4)
    with torch.set_grad_enabled(gradient):
        mode = chosen_mode(Solve(gradient=Phantom()), DampedPicard(), start, one_launch=one_launch)
    assert mode == expected


def test_unrolling_and_memory_are_simultaneous() -> None:
    start = torch.zeros(1, 64, 4)
    unrolled = Solve(gradient=Unrolled(4))
    assert chosen_mode(unrolled, DampedPicard(), start, one_launch=False) == "simultaneous"
    assert chosen_mode(Solve(), Anderson(), start, one_launch=False) == "simultaneous"
