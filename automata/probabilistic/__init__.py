"""Probabilistic automata with state reveals."""
