"""Bayes filters of probabilistic automata, linear and not."""

from theory.belief.filters import BayesFilter
from theory.belief.marginals import marginals, swapped_marginals

__all__ = ["BayesFilter", "marginals", "swapped_marginals"]
