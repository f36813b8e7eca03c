"""Deterministic automata: acceptors, machines that answer after every token, and what relates them."""

from automata.machines.circuit_class import CircuitClass, circuit_class
from automata.machines.dfa import DFA
from automata.machines.equivalence import (
    distinguishing_word,
    is_equivalent,
    minimise,
    product,
    transition_monoid,
)
from automata.machines.language import count_words, sample_words, states_with_finite_future, word_of_rank
from automata.machines.mealy import MealyMachine, distinguishing_tokens, minimise_mealy, word_in_names
from automata.machines.named_dfas import (
    cyclic_navigation_dfa,
    dyck_dfa,
    flip_flop_dfa,
    modular_counter_dfa,
    monoid_dfa,
    parity_dfa,
)
from automata.machines.regular_expressions import regular_expression_dfa

__all__ = [
    "DFA",
    "CircuitClass",
    "MealyMachine",
    "circuit_class",
    "count_words",
    "cyclic_navigation_dfa",
    "distinguishing_tokens",
    "distinguishing_word",
    "dyck_dfa",
    "flip_flop_dfa",
    "is_equivalent",
    "minimise",
    "minimise_mealy",
    "modular_counter_dfa",
    "monoid_dfa",
    "parity_dfa",
    "product",
    "regular_expression_dfa",
    "sample_words",
    "states_with_finite_future",
    "transition_monoid",
    "word_in_names",
    "word_of_rank",
]
