"""Probabilistic automata by name: permutations whose swaps may not happen, parity with a noisy flip."""

from collections.abc import Iterable
from itertools import combinations, permutations

import numpy as np

from automata.errors import InputError
from automata.monoids.transformations import one_line_name
from automata.probabilistic.pfsa import ProbabilisticAutomaton


def lazy_swaps(
    variables: int = 5,
    probability: float = 0.5,
    swaps: Iterable[tuple[int, int]] | None = None,
    *,
    full_reveal: bool = True,
) -> ProbabilisticAutomaton:
    """Return n variables that start as 1 … n and whose swaps each happen with the same probability.

    Hidden states are the n! arrangements, in one-line form: the joint representation. The action "swap 1 2"
    exchanges the contents of variables 1 and 2, or does nothing. Reveals: "all", which is full and may be
    left out, and "variable 1", …, "variable n", which are partial.

    Args:
        variables: n, from 2 to 6.
        probability: that a swap happens, in [0, 1].
        swaps: pairs (i, j) with i < j; all n(n-1)/2 of them if left out.
        full_reveal: whether there is the reveal "all".

    Raises:
        InputError: one of these is out of its range.

    Example:
        >>> automaton = lazy_swaps(3, probability=0.25)
        >>> automaton.actions, automaton.reveals
        (('swap 1 2', 'swap 1 3', 'swap 2 3'), ('all', 'variable 1', 'variable 2', 'variable 3'))
        >>> tokens = automaton.encode(["swap 1 2", "variable 3"])
        >>> shown = automaton.value_names["variable 3"].index("3")
        >>> belief = automaton.beliefs(tokens, [-1, shown])[-1]
        >>> [(state, p) for state, p in zip(automaton.states, belief.round(12).tolist()) if p]
        [('123', 0.75), ('213', 0.25)]
    """
    if not 2 <= variables <= 6:
        raise InputError(f"variables is {variables}; give a number in 2 … 6")
    _check_probability("probability", probability)
    pairs = list(combinations(range(1, variables + 1), 2)) if swaps is None else list(swaps)
    for pair in pairs:
        if not 1 <= pair[0] < pair[1] <= variables:
            raise InputError(f"swaps holds {pair}; give pairs (i, j) with 1 ≤ i < j ≤ {variables}")
    arrangements = list(permutations(range(variables)))
    numbers = {arrangement: number for number, arrangement in enumerate(arrangements)}
    stay = np.eye(len(arrangements))
    actions = {}
    for i, j in pairs:
        swapped = []
        for arrangement in arrangements:
            contents = list(arrangement)
            contents[i - 1], contents[j - 1] = contents[j - 1], contents[i - 1]
            swapped.append(numbers[tuple(contents)])
        actions[f"swap {i} {j}"] = (1 - probability) * stay + probability * stay[:, swapped]
    names = [one_line_name(arrangement) for arrangement in arrangements]
    reveals: dict[str, list[object]] = {"all": [*names]} if full_reveal else {}
    for i in range(variables):
        reveals[f"variable {i + 1}"] = [arrangement[i] + 1 for arrangement in arrangements]
    return ProbabilisticAutomaton(names, stay[0], actions, reveals)


def noisy_parity(failure_probability: float) -> ProbabilisticAutomaton:
    """Return parity whose token "1" fails to flip with this probability; the reveal "parity" is full.

    After k ones and no reveal, Pr(odd) = (1 - (2ε - 1)^k) / 2.

    Raises:
        InputError: the probability is outside [0, 1].

    Example:
        >>> automaton = noisy_parity(0.25)
        >>> tokens = automaton.encode(["1", "1", "0"])
        >>> automaton.beliefs(tokens, [-1, -1, -1])[:, 1].round(12).tolist()
        [0.75, 0.375, 0.375]
    """
    _check_probability("failure_probability", failure_probability)
    stays, flips = failure_probability, 1 - failure_probability
    return ProbabilisticAutomaton(
        ["even", "odd"],
        [1, 0],
        {"0": np.eye(2), "1": [[stays, flips], [flips, stays]]},
        {"parity": ["even", "odd"]},
    )


def _check_probability(field: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{field} is {value}; give a number in [0, 1]")
