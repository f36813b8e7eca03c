"""Probabilistic automata with state reveals and their exact filters, joint and marginal."""

from automata.probabilistic.marginal_filter import (
    MarginalFilter as MarginalFilter,
    belief_from_marginals as belief_from_marginals,
    three_variables_closed as three_variables_closed,
)
from automata.probabilistic.named_pfsas import (
    hidden_permutations as hidden_permutations,
    lazy_swaps as lazy_swaps,
    noisy_parity as noisy_parity,
    unknown_coin as unknown_coin,
)
from automata.probabilistic.pfsa import NO_VALUE as NO_VALUE, ProbabilisticAutomaton as ProbabilisticAutomaton
from automata.probabilistic.scope import (
    Confusion as Confusion,
    MarginalScope as MarginalScope,
    marginal_scope as marginal_scope,
)
