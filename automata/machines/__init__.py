"""Deterministic automata: acceptors, machines that answer after every token, and what relates them."""

from automata.machines.circuit_class import CircuitClass as CircuitClass, circuit_class as circuit_class
from automata.machines.dfa import DFA as DFA
from automata.machines.equivalence import (
    distinguishing_word as distinguishing_word,
    is_equivalent as is_equivalent,
    minimise as minimise,
    product as product,
    transition_monoid as transition_monoid,
)
from automata.machines.language import (
    count_words as count_words,
    sample_words as sample_words,
    states_with_finite_future as states_with_finite_future,
    word_of_rank as word_of_rank,
)
from automata.machines.mealy import (
    MealyMachine as MealyMachine,
    distinguishing_tokens as distinguishing_tokens,
    minimise_mealy as minimise_mealy,
    word_in_names as word_in_names,
)
from automata.machines.named_dfas import (
    cyclic_navigation_dfa as cyclic_navigation_dfa,
    dyck_dfa as dyck_dfa,
    flip_flop_dfa as flip_flop_dfa,
    modular_counter_dfa as modular_counter_dfa,
    monoid_dfa as monoid_dfa,
    parity_dfa as parity_dfa,
)
from automata.machines.regular_expressions import regular_expression_dfa as regular_expression_dfa
