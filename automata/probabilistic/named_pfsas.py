"""Probabilistic automata by name: hidden permutations and swaps, a noisy parity, a coin of unknown bias."""

from collections.abc import Iterable, Mapping
from itertools import combinations, permutations
from typing import Any

import numpy as np

from automata.checks import check_integer, check_number, check_share, check_type, shown
from automata.errors import InputError
from automata.monoids.groups import one_line_name
from automata.probabilistic.pfsa import TOLERANCE, ProbabilisticAutomaton


def hidden_permutations(
    variables: int, actions: Mapping[str, Mapping[Any, float]], *, full_reveal: bool = True
) -> ProbabilisticAutomaton:
    """Return n variables that start as 1 … n and whose actions each do one of several permutations.

    An action gives its permutations of 1 … n, n from 2 to 6, as tuples in one-line form, with their
    probabilities. Hidden states are the n! arrangements, in one-line form: the joint representation. After
    the permutation σ variable i holds what variable σᵢ held; which σ it was is drawn anew at each token and
    not shown.
    Reveals: "all", which is full and may be left out, and "variable 1", …, "variable n", which show what one
    variable holds. InputError if n is not in 2 … 6, an action is no mapping, a key is no permutation of 1 …
    n, or the probabilities of an action are not those of a distribution.

    Example:
        Three variables that are rotated by nobody knows how much:

        >>> turn = {(1, 2, 3): 0.5, (2, 3, 1): 0.25, (3, 1, 2): 0.25}
        >>> automaton = hidden_permutations(3, {"turn": turn})
        >>> belief = automaton.beliefs(automaton.encode(["turn"]), [-1])[-1]
        >>> [(state, p) for state, p in zip(automaton.states, belief.tolist()) if p]
        [('123', 0.5), ('231', 0.25), ('312', 0.25)]
    """
    check_integer("variables", variables, 2, 6)
    check_type("actions", actions, Mapping, 'give a mapping such as {"turn": {(2, 1): 0.5, (1, 2): 0.5}}')
    for action, mixture in actions.items():
        check_type(
            f"action {action!r}", mixture, Mapping, "give a mapping from permutations to their probabilities"
        )
        for permutation, probability in mixture.items():
            check_number(f"the probability of {permutation} in action {action!r}", probability)
            if not isinstance(permutation, tuple) or sorted(permutation) != list(range(1, variables + 1)):
                raise InputError(
                    f"action {action!r} holds {permutation}; give permutations of 1 … {variables}"
                )
        total = sum(mixture.values())
        if min(mixture.values(), default=-1) < 0 or not abs(total - 1) <= TOLERANCE:
            raise InputError(
                f"the probabilities of action {action!r} sum to {total:.6g}; "
                "make none negative and their sum 1"
            )
    arrangements = list(permutations(range(variables)))
    numbers = {arrangement: number for number, arrangement in enumerate(arrangements)}
    stay = np.eye(len(arrangements))
    matrices = {}
    for action, mixture in actions.items():
        matrix = np.zeros_like(stay)
        for permutation, probability in mixture.items():
            moved = [numbers[tuple(state[i - 1] for i in permutation)] for state in arrangements]
            matrix += probability * stay[:, moved]
        matrices[action] = matrix
    names = [one_line_name(arrangement) for arrangement in arrangements]
    reveals: dict[str, list[object]] = {"all": [*names]} if full_reveal else {}
    for i in range(variables):
        reveals[f"variable {i + 1}"] = [arrangement[i] + 1 for arrangement in arrangements]
    return ProbabilisticAutomaton(names, stay[0], matrices, reveals)


def lazy_swaps(
    variables: int = 5,
    probability: float = 0.5,
    swaps: Iterable[tuple[int, int]] | None = None,
    *,
    full_reveal: bool = True,
) -> ProbabilisticAutomaton:
    """Return n variables that start as 1 … n and whose swaps each happen with one probability in [0, 1].

    Hidden states are the n! arrangements, n from 2 to 6, in one-line form: the joint representation. The
    action "swap 1 2" exchanges the contents of variables 1 and 2, or does nothing. Swaps are pairs (i, j)
    with i < j, all n(n-1)/2 if left out. Reveals: "all", which is full and may be left out, and "variable 1",
    …, "variable n", which are partial. InputError if one of these is out of its range.

    Example:
        >>> automaton = lazy_swaps(3, probability=0.25)
        >>> tokens = automaton.encode(["swap 1 2", "variable 3"])
        >>> shown = automaton.value_names["variable 3"].index("3")
        >>> belief = automaton.beliefs(tokens, [-1, shown])[-1]
        >>> [(state, p) for state, p in zip(automaton.states, belief.round(12).tolist()) if p]
        [('123', 0.75), ('213', 0.25)]
    """
    check_integer("variables", variables, 2, 6)
    check_share("probability", probability)
    everything = range(1, variables + 1)
    if swaps is not None:
        check_type("swaps", swaps, Iterable, "give pairs (i, j) of variables")
    pairs = list(combinations(everything, 2)) if swaps is None else list(swaps)
    actions: dict[str, dict[tuple[int, ...], float]] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"swaps holds {shown(pair)}; give pairs (i, j) with 1 ≤ i < j ≤ {variables}")
        i, j = (check_integer("a variable of swaps", variable) for variable in pair)
        if not 1 <= i < j <= variables:
            raise InputError(f"swaps holds {(i, j)}; give pairs (i, j) with 1 ≤ i < j ≤ {variables}")
        swapped = tuple({i: j, j: i}.get(k, k) for k in everything)
        actions[f"swap {i} {j}"] = {tuple(everything): 1 - probability, swapped: probability}
    return hidden_permutations(variables, actions, full_reveal=full_reveal)


def noisy_parity(failure_probability: float) -> ProbabilisticAutomaton:
    """Return parity whose token "1" fails to flip with this probability; the reveal "parity" is full.

    After k ones and no reveal, Pr(odd) = (1 - (2ε - 1)^k) / 2. InputError if the probability is outside [0,
    1].

    Example:
        >>> automaton = noisy_parity(0.25)
        >>> tokens = automaton.encode(["1", "1", "0"])
        >>> automaton.beliefs(tokens, [-1, -1, -1])[:, 1].round(12).tolist()
        [0.75, 0.375, 0.375]
    """
    check_share("failure_probability", failure_probability)
    stays, flips = failure_probability, 1 - failure_probability
    return ProbabilisticAutomaton(
        ["even", "odd"],
        [1, 0],
        {"0": np.eye(2), "1": [[stays, flips], [flips, stays]]},
        {"parity": ["even", "odd"]},
    )


def unknown_coin(heads_probability: float = 2 / 3) -> ProbabilisticAutomaton:
    """Return a coin that shows heads with probability p or 1 − p, each with probability ½.

    The action "toss" draws the face anew, the reveal "look" shows it. The coin is never exchanged, so after
    H heads and T tails, each after a toss, Pr(the coin of p) = 1 / (1 + ((1 − p)/p)^(H − T)): what has to be
    kept is a count without bound. InputError if the probability is outside [0, 1].

    Example:
        >>> automaton = unknown_coin(0.75)
        >>> tokens = automaton.encode(["toss", "look", "toss", "look"])
        >>> heads = automaton.value_names["look"].index("heads")
        >>> automaton.beliefs(tokens, [-1, heads, -1, heads])[-1].round(12).tolist()
        [0.9, 0.0, 0.1, 0.0]
    """
    check_share("heads_probability", heads_probability)
    p = heads_probability
    toss = np.zeros((4, 4))
    toss[:2, :2] = [[p, p], [1 - p, 1 - p]]
    toss[2:, 2:] = [[1 - p, 1 - p], [p, p]]
    return ProbabilisticAutomaton(
        ["p, heads", "p, tails", "1 − p, heads", "1 − p, tails"],
        [0.5, 0, 0.5, 0],
        {"toss": toss},
        {"look": ["heads", "tails", "heads", "tails"]},
    )
