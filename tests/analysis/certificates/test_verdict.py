"""A verdict describes an automaton by what it is, and not by its name."""

import numpy as np
import pytest

from analysis.certificates.naming import described
from automata.machines.mealy import MealyMachine
from automata.machines.named_dfas import flip_flop_dfa, modular_counter_dfa
from automata.monoids.groups import cyclic_group, quaternion_group
from automata.monoids.monoid import direct_product
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem


def test_every_spelling_of_an_automaton_is_described_alike() -> None:
    machine = make_task("S3").machine()
    again = np.random.default_rng(0).permutation(7)  # one more state, which no word reaches
    table = np.zeros((7, 6), dtype=int)
    table[again[:6]] = again[machine.table]
    other = described(MealyMachine(table, table, int(again[machine.initial])))
    assert other == described(machine).replace("6 of 6 states", "6 of 7 states")


@pytest.mark.parametrize(
    ("machine", "named"),
    [
        (make_task("S5-generators").machine(), "generate S5)"),
        (WordProblem.from_dfa(modular_counter_dfa(120)).machine(), "generate Z120)"),
        (WordProblem.from_monoid(quaternion_group()).machine(), "generate Q8)"),
        (WordProblem.from_monoid(direct_product(cyclic_group(2), cyclic_group(2))).machine(), "generate D2)"),
        (WordProblem.from_dfa(flip_flop_dfa()).machine(), "a monoid of 3 maps, which is no group)"),
        (WordProblem.from_dfa(modular_counter_dfa(1000)).machine(), "more than 720 maps of the states)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_group_is_named_by_what_it_is(machine: MealyMachine, named: str) -> None:
    assert named in described(machine)


def test_answers_that_are_not_the_states_have_a_hash_of_their_own() -> None:
    table = [[0, 1], [1, 0]]
    odd, never = MealyMachine(table, table), MealyMachine(table, [[0, 0], [0, 0]])
    assert "answers of SHA-256" not in described(odd)
    assert "answers of SHA-256" in described(never)
