"""Partially observed automata that have names."""

from collections.abc import Callable

from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.entry import TaskEntry, refuse_hard_fraction
from automata.tasks.partially_observed import PartiallyObserved, Target


def _observed(
    automaton: Callable[[], ProbabilisticAutomaton], target: Target
) -> Callable[[str, str, float], PartiallyObserved]:
    def build(name: str, description: str, hard_fraction: float) -> PartiallyObserved:
        refuse_hard_fraction(name, hard_fraction)
        return PartiallyObserved(automaton(), target, name=name, description=description)

    return build


PARTIALLY_OBSERVED = (
    TaskEntry(
        "noisy-parity-reveals",
        "parity whose flips fail one time in ten; predict what each reveal shows",
        _observed(lambda: noisy_parity(0.1), "reveals"),
    ),
    TaskEntry(
        "noisy-parity-states",
        "parity whose flips fail one time in ten; predict the hidden state after every token",
        _observed(lambda: noisy_parity(0.1), "states"),
    ),
    TaskEntry(
        "lazy-swaps-3-reveals",
        "three variables whose swaps happen half of the time; predict what each reveal shows",
        _observed(lambda: lazy_swaps(3), "reveals"),
    ),
    TaskEntry(
        "lazy-swaps-3-states",
        "three variables whose swaps happen half of the time; predict the hidden arrangement",
        _observed(lambda: lazy_swaps(3), "states"),
    ),
    TaskEntry(
        "likely-swaps-3-reveals",
        "three variables whose swaps happen nine times in ten; predict what partial reveals show",
        _observed(lambda: lazy_swaps(3, 0.9, full_reveal=False), "reveals"),
    ),
    TaskEntry(
        "lazy-swaps-5-reveals",
        "five variables whose swaps happen half of the time; predict what each reveal shows",
        _observed(lambda: lazy_swaps(5), "reveals"),
    ),
)
"""Whose actions may fail unseen."""
