"""Machines to compile."""

import numpy as np

from automata.machines.mealy import MealyMachine


def random_machine(states: int, tokens: int, answers: int, seed: int) -> MealyMachine:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, states, (states, tokens))
    return MealyMachine(table, rng.integers(0, answers, table.shape), int(rng.integers(states)))


PARITY = MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]])
ALL_TO_ONE = MealyMachine(np.zeros((12, 3), int), np.zeros((12, 3), int))
