"""Probabilistic automata with state reveals."""

from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton

__all__ = ["NO_VALUE", "ProbabilisticAutomaton", "lazy_swaps", "noisy_parity"]
