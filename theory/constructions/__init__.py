"""Models with exact weights: which maps, automata and groups a recurrence computes, by construction.

And what recurrences of a class cannot do, whatever their weights: words that they confuse, errors that they
keep.
"""

from theory.constructions.automaton import (
    decode_states,
    relu_rnn_of_automaton,
    ssm_of_automaton,
    sweeps_of_automaton,
)
from theory.constructions.error_control import (
    AffineMap,
    KeptErrors,
    errors_that_confuse,
    kept_errors,
    map_of_word,
)
from theory.constructions.implicit_ssm import ImplicitSSM, SweepResult, ssm_of_map, ssm_of_rnn
from theory.constructions.reflections import householder_product, householder_vectors, reflections_needed
from theory.constructions.solvable import SolvableCascade
from theory.constructions.tracking_limits import (
    commutator_gap,
    commutator_words,
    diagonal_state,
    eventual_cycle,
)

__all__ = [
    "AffineMap",
    "ImplicitSSM",
    "KeptErrors",
    "SolvableCascade",
    "SweepResult",
    "commutator_gap",
    "commutator_words",
    "decode_states",
    "diagonal_state",
    "errors_that_confuse",
    "eventual_cycle",
    "householder_product",
    "householder_vectors",
    "kept_errors",
    "map_of_word",
    "reflections_needed",
    "relu_rnn_of_automaton",
    "ssm_of_automaton",
    "ssm_of_map",
    "ssm_of_rnn",
    "sweeps_of_automaton",
]
