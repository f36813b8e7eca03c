"""What linear recurrences track with exact integer weights, and words that they must confuse.

A generalised Householder step is I − β k kᵀ with ‖k‖ = 1 and β ∈ [0, 2]; DeltaNet takes one per token,
DeltaProduct (Siems et al. 2025, arXiv 2502.10297) n of them. With β = 2 and k = (e_i − e_j)/√2 the step
is the swap of i and j, with integer entries.

For one diagonal layer h ← λ(x) h + u(x), entry by entry, on words of tokens x: with real λ, in any arithmetic
of finitely many numbers whose rounding is monotone, x x x … ends in one state or in two that alternate; with
complex λ, the states after g k wⁿ and k g wⁿ differ by what fades or is never there, since factors commute.
Numbers may be floats, complex, fractions or symbols; +0.0 and −0.0 are one.

``docs/what_can_be_tracked.md`` has statements and proofs.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

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


def transpositions(images: Sequence[int]) -> list[tuple[int, int]]:
    """Return the fewest swaps whose product, read from left to right, is a permutation of 0 … n−1.

    A cycle of c points takes c − 1, so n − (number of cycles) together, at most n − 1. InputError if images
    is no permutation of 0 … n−1.

    Args:
        images: image[i] is where i goes; applying the swaps to the list 0 … n−1 one after the other gives
            it.
    """
    if sorted(images) != list(range(len(images))):
        raise InputError(f"images is {list(images)}; give a permutation of 0 … {len(images) - 1}")
    current, swaps = list(range(len(images))), []
    for place, wanted in enumerate(images):
        other = current.index(wanted)
        if other != place:
            current[place], current[other] = current[other], current[place]
            swaps.append((place, other))
    return swaps


def householder_vectors(images: Sequence[int]) -> Tensor:
    """Return the vectors e_i − e_j of those swaps, int64 ``[swaps, n]``; their squared norm is 2.

    So each step is v ↦ v − k (kᵀ v) with k = e_i − e_j, the reflection with β = 2 along k/√2.

    Example:
        >>> householder_vectors([1, 0, 2]).tolist()
        [[1, -1, 0]]
    """
    first, second = torch.tensor(transpositions(images), dtype=torch.int64).reshape(-1, 2).T
    unit = torch.eye(len(images), dtype=torch.int64)
    return unit[first] - unit[second]


def householder_product(vectors: Tensor) -> Tensor:
    """Return (I − k_m k_mᵀ) ⋯ (I − k_1 k_1ᵀ), shape ``[n, n]``, for vectors ``[m, n]`` of squared norm 2.

    Example:
        >>> (householder_product(householder_vectors([1, 2, 0])) @ torch.tensor([10, 20, 30])).tolist()
        [20, 30, 10]
    """
    product = torch.eye(vectors.shape[1], dtype=vectors.dtype)
    for vector in vectors:
        product = product - torch.outer(vector, vector @ product)
    return product


def reflections_needed(matrix: Tensor) -> int:
    """Return rank(I − A), a lower bound on the number of Householder steps whose product is A.

    Each step changes at most one dimension. For orthogonal A the bound is attained (Cartan and
    Dieudonné); for a permutation matrix it is n − (number of cycles).

    Example:
        >>> reflections_needed(householder_product(householder_vectors([1, 2, 3, 4, 0])))
        4
    """
    identity = torch.eye(len(matrix), dtype=torch.float64)
    return int(torch.linalg.matrix_rank(identity - matrix.double()))
