"""Exact finite objects and their data: monoids, automata, probabilistic automata, tasks.

The lowest layer: NumPy and NetworkX only (matplotlib is imported in ``drawing``, where it is used).

Example:
    >>> import numpy as np
    >>> from automata import circuit_class, make_task, symmetric_group
    >>> circuit_class(symmetric_group(5)).kind
    'non-solvable'
    >>> tokens, states = make_task("S5").sample(batch=2, length=8, rng=np.random.default_rng(0))
    >>> tokens.shape, states.shape
    ((2, 8), (2, 8))
"""

from automata.drawing import draw_cayley_graph, draw_dfa
from automata.errors import InputError, unknown_name
from automata.machines.circuit_class import CircuitClass, circuit_class
from automata.machines.dfa import DFA
from automata.machines.equivalence import (
    distinguishing_word,
    is_equivalent,
    minimise,
    product,
    transition_monoid,
)
from automata.machines.language import count_words, sample_words, word_of_rank
from automata.machines.named_dfas import (
    cyclic_navigation_dfa,
    dyck_dfa,
    flip_flop_dfa,
    modular_counter_dfa,
    monoid_dfa,
    parity_dfa,
)
from automata.machines.regular_expressions import regular_expression_dfa
from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from automata.monoids.isomorphism import find_isomorphism
from automata.monoids.monoid import Monoid, direct_product
from automata.monoids.transformations import permutation_group, transformation_closure
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from automata.tasks.registry import describe_tasks, make_task, task_names
from automata.tasks.repl_traces import ReplTrace, repl_trace, sample_repl_trace
from automata.tasks.word_problem import WordProblem

__all__ = [
    "DFA",
    "NO_VALUE",
    "CircuitClass",
    "InputError",
    "Monoid",
    "ProbabilisticAutomaton",
    "ReplTrace",
    "WordProblem",
    "alternating_group",
    "circuit_class",
    "count_words",
    "cyclic_group",
    "cyclic_navigation_dfa",
    "describe_tasks",
    "dihedral_group",
    "direct_product",
    "distinguishing_word",
    "draw_cayley_graph",
    "draw_dfa",
    "dyck_dfa",
    "find_isomorphism",
    "flip_flop_dfa",
    "is_equivalent",
    "lazy_swaps",
    "make_task",
    "minimise",
    "modular_counter_dfa",
    "monoid_dfa",
    "noisy_parity",
    "parity_dfa",
    "permutation_group",
    "product",
    "quaternion_group",
    "regular_expression_dfa",
    "repl_trace",
    "reset_monoid",
    "sample_repl_trace",
    "sample_words",
    "symmetric_group",
    "task_names",
    "transformation_closure",
    "transition_monoid",
    "unknown_name",
    "word_of_rank",
]
