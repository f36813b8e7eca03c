"""Probabilistic automata with state reveals and their exact filters, joint and marginal."""

from automata.probabilistic.marginal_filter import (
    MarginalFilter,
    belief_from_marginals,
    three_variables_closed,
)
from automata.probabilistic.named_pfsas import hidden_permutations, lazy_swaps, noisy_parity, unknown_coin
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from automata.probabilistic.scope import Confusion, MarginalScope, marginal_scope

__all__ = [
    "NO_VALUE",
    "Confusion",
    "MarginalFilter",
    "MarginalScope",
    "ProbabilisticAutomaton",
    "belief_from_marginals",
    "hidden_permutations",
    "lazy_swaps",
    "marginal_scope",
    "noisy_parity",
    "three_variables_closed",
    "unknown_coin",
]
