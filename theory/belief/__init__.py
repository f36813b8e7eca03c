"""Bayes filters of probabilistic automata, linear and not."""
