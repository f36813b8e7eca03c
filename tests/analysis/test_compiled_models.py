"""Compiled models as the control of the analyses: what each must answer is known beforehand."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from analysis import error_control
from automata import make_task
from implicit import Run
from implicit.compiled import compile_automaton
from theory import layer_jacobians, solve_fixed_point


def test_errors_are_corrected_while_the_distance_of_states_stays(compiled: Run) -> None:
    found = error_control.analyse(compiled, sequences=16, length=32, block=16, pairs=6, follow=8)
    assert found.verdict == "corrected"
    assert found.left < 1e-6
    left = found.followed.shares[0.01][:, 1] / 0.01
    assert np.median(left) == pytest.approx(1 / 16, rel=0.1), "λ of it, and next to nothing through the write"
    assert left.max() < 0.5, "what it does to the write is more where the memory holds two states"
    assert found.spread.failure is None
    assert found.spread.upper.max() < 1e-4
    gains = found.followed.gains
    assert gains is not None
    np.testing.assert_allclose(gains.between, 1, atol=0.2)  # in both, older states weigh 1/15 of the last
    assert np.nanmax(gains.within) < 1e-3


def _off_diagonal_mass(word: Sequence[int]) -> float:
    model = compile_automaton(make_task("parity")).double()
    states = model.states(torch.tensor([[*word, 0]]))
    transition, state = model.transition(1), {name: part[0, len(word)] for name, part in states.items()}
    (jacobian,) = layer_jacobians(transition, state, solve_fixed_point(transition, state).latent)
    return jacobian.off_diagonal_mass()


ONE_STATE: list[list[int]] = [[], [0], [0, 0, 0], [1, 1, *[0] * 12]]
"""Words after which the memory holds the first state alone, to λ to the power of the zeros."""
TWO_STATES = [[1], [0, 1], [1, 0, 1, 1], [1, *[0] * 12]]
"""Words that end in the second state: the constant channels always speak of the first."""


def test_the_transition_is_diagonal_to_rounding_only_where_the_memory_holds_one_state() -> None:
    assert all(_off_diagonal_mass(word) > 0.05 for word in TWO_STATES)
    assert all(_off_diagonal_mass(word) < 1e-4 for word in ONE_STATE)  # the defect of D is left
