"""Models with exact weights: which maps, automata and groups a recurrence computes, by construction.

And what recurrences of a class cannot do, whatever their weights: words that they confuse, errors that they
keep.
"""

from theory.constructions.automaton import (
    decode_states as decode_states,
    relu_rnn_of_automaton as relu_rnn_of_automaton,
    ssm_of_automaton as ssm_of_automaton,
)
from theory.constructions.error_control import (
    AffineMap as AffineMap,
    KeptErrors as KeptErrors,
    errors_that_confuse as errors_that_confuse,
    kept_errors as kept_errors,
    map_of_word as map_of_word,
)
from theory.constructions.implicit_ssm import (
    ImplicitSSM as ImplicitSSM,
    SweepResult as SweepResult,
    ssm_of_map as ssm_of_map,
    ssm_of_rnn as ssm_of_rnn,
)
from theory.constructions.linear_recurrences import (
    commutator_gap as commutator_gap,
    commutator_words as commutator_words,
    diagonal_state as diagonal_state,
    eventual_cycle as eventual_cycle,
    householder_product as householder_product,
    householder_vectors as householder_vectors,
    reflections_needed as reflections_needed,
)
from theory.constructions.solvable import SolvableCascade as SolvableCascade
