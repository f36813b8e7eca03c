"""Mealy machines against brute force over all words."""

import itertools

import numpy as np
import pytest

from automata.machines.mealy import MealyMachine, distinguishing_tokens, minimise_mealy
from automata.tasks.registry import make_task
from automata.tasks.word_problem import allowed_traces
from tests.refusals import refusals


def random_machine(rng: np.random.Generator, states: int, tokens: int, answers: int) -> MealyMachine:
    return MealyMachine(
        rng.integers(0, states, (states, tokens)),
        rng.integers(0, answers, (states, tokens)),
        int(rng.integers(states)),
    )


def shortest_difference(first: MealyMachine, second: MealyMachine, longest: int) -> int | None:
    """The length of a shortest word with different answers, by trying all words."""
    for length in range(1, longest + 1):
        words = np.array(list(itertools.product(range(first.token_count), repeat=length)))
        if (first.read(words)[:, -1] != second.read(words)[:, -1]).any():
            return length
    return None


@pytest.mark.parametrize("seed", range(20))
def test_minimal_machines_and_distinguishing_words_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (random_machine(rng, states=4, tokens=2, answers=2) for _ in range(2))
    smallest = minimise_mealy(first)
    # two machines of n and m states that answer all words of n + m - 1 tokens alike are equivalent
    assert shortest_difference(first, smallest, 8) is None
    words = np.array(list(itertools.product(range(2), repeat=4)))
    # Myhill and Nerode: as many states as reachable states with different answers to all words
    rows = {
        MealyMachine(first.table, first.answers, state).read(words).tobytes()
        for state in np.unique(first.states(np.array(list(itertools.product(range(2), repeat=4)))))
    }
    assert smallest.state_count == len(rows)
    word = distinguishing_tokens(first, second)
    expected = shortest_difference(first, second, 8)
    assert (None if word is None else len(word)) == expected
    if word is not None:
        assert first.read([word])[0, -1] != second.read([word])[0, -1]


def test_equivalent_machines_minimise_to_the_same_tables() -> None:
    rng = np.random.default_rng(0)
    machine = random_machine(rng, states=6, tokens=3, answers=2)
    order = rng.permutation(6)
    rank = np.argsort(order)
    renamed = MealyMachine(rank[machine.table[order]], machine.answers[order], int(rank[machine.initial]))
    one, other = minimise_mealy(machine), minimise_mealy(renamed)
    np.testing.assert_array_equal(one.table, other.table)
    np.testing.assert_array_equal(one.answers, other.answers)
    assert distinguishing_tokens(machine, renamed) is None


def test_words_that_a_task_avoids_tell_nothing_apart() -> None:
    task = make_task("dyck-4")
    exact = task.machine()
    sink = task.avoid[0]
    # closing a bracket that is not open leads elsewhere than in the task, which never draws such words
    table = np.where(exact.table == sink, exact.initial, exact.table)
    lenient = MealyMachine(table, table, exact.initial)
    assert distinguishing_tokens(lenient, exact) == (1,)
    assert distinguishing_tokens(lenient, exact, allowed_traces(task, range(task.state_count))) is None


test_broken_machines_are_refused = refusals(
    (lambda: MealyMachine([[0, 1]], [[0, 1]]), "state numbers holds 1"),
    (lambda: MealyMachine([[0]], [[0, 1]]), r"table has shape \[1, 1\] and answers \[1, 2\]"),
    (lambda: MealyMachine([[0]], [[-1]]), "answers holds -1"),
    (lambda: MealyMachine([[0]], [[0]], 1), "state numbers holds 1"),
)


MACHINE = MealyMachine([[0, 0]], [[0, 1]])
test_words_and_machines_that_do_not_fit_are_refused = refusals(
    (lambda: MACHINE.read([[0, 2]]), "tokens holds 2"),
    (lambda: MACHINE.read([0, 1]), r"tokens has shape \[2\]"),
    (
        lambda: distinguishing_tokens(MACHINE, MealyMachine([[0]], [[0]])),
        "one machine reads 2 tokens, the other 1",
    ),
)
