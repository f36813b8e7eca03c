"""Words that every linear recurrence of a class must confuse, whatever its parameters.

For one layer h ← λ(x) h + u(x), entry by entry, on words of tokens x: with real λ, in any arithmetic of
finitely many numbers whose rounding is monotone, x x x … ends in one state or in two that alternate; with
complex λ, the states after g k wⁿ and k g wⁿ differ by what fades or is never there, since factors commute.
``docs/what_can_be_tracked.md`` has statements and proofs. Numbers may be floats, complex, fractions or
symbols; +0.0 and −0.0 are one.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from automata.errors import InputError

Value = TypeVar("Value", bound=Hashable)


def eventual_cycle(step: Callable[[Value], Value], start: Value, limit: int = 10**6) -> tuple[int, int]:
    """Return how many steps an orbit takes to enter its cycle, and the length of the cycle.

    Values are compared by ``==``, so that +0.0 and −0.0 are one. InputError if no value has come back within
    so many steps.

    Example:
        Three quarters of h, rounded down: 10, 7, 5, 3, 2, 1, 0, 0, …; and λ = −1, which alternates.

        >>> eventual_cycle(lambda h: 3 * h // 4, 10), eventual_cycle(lambda h: 1 - h, 0)
        ((6, 1), (0, 2))
        >>> eventual_cycle(lambda h: -0.0 * h - 0.0, 0.0)  # only the sign of zero moves
        (0, 1)
    """
    seen: dict[Value, int] = {}
    value = start
    for number in range(limit + 1):
        if value in seen:
            return seen[value], number - seen[value]
        seen[value] = number
        value = step(value)
    raise InputError(f"limit is {limit} steps and no value came back; raise the limit")


def diagonal_state(
    word: Sequence[str], decays: Mapping[str, Any], drives: Mapping[str, Any], initial: Any = 0
) -> Any:
    """Return one entry of the state of h ← λ(x) h + u(x) after a word, from λ and u of every token.

    Example:
        Parity with λ(1) = −1 and u(1) = 1:

        >>> [diagonal_state("1" * n, {"1": -1}, {"1": 1}) for n in range(5)]
        [0, 1, 0, 1, 0]
    """
    state = initial
    for token in word:
        state = decays[token] * state + drives[token]
    return state


def commutator_words(
    first: str, second: str, pause: Sequence[str], repeats: int
) -> tuple[list[str], list[str]]:
    """Return the two words g k wⁿ and k g wⁿ.

    Example:
        >>> commutator_words("g", "k", ["e"], 2)
        (['g', 'k', 'e', 'e'], ['k', 'g', 'e', 'e'])
    """
    tail = list(pause) * repeats
    return [first, second, *tail], [second, first, *tail]


def commutator_gap(
    first: str,
    second: str,
    pause: Sequence[str],
    repeats: int,
    decays: Mapping[str, Any],
    drives: Mapping[str, Any],
) -> Any:
    """Return by how much the states after g k wⁿ and k g wⁿ differ, which no initial state changes.

    It is λ_wⁿ ((λ_k − 1) u_g − (λ_g − 1) u_k), with λ_w the product of λ over w.

    Example:
        >>> from fractions import Fraction
        >>> decays = {"g": Fraction(1, 2), "k": Fraction(-1), "e": Fraction(1, 3)}
        >>> drives = {"g": 1, "k": 2, "e": 5}
        >>> print(commutator_gap("g", "k", ["e"], 4, decays, drives))
        -1/81
    """
    gap = (decays[second] - 1) * drives[first] - (decays[first] - 1) * drives[second]
    for token in list(pause) * repeats:
        gap = decays[token] * gap
    return gap
