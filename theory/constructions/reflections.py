"""Permutations as products of Householder reflections: linear recurrences with exact integer weights.

A generalised Householder step is I − β k kᵀ with ‖k‖ = 1 and β ∈ [0, 2]; DeltaNet takes one per token,
DeltaProduct (Siems et al. 2025, arXiv 2502.10297) n of them. With β = 2 and k = (e_i − e_j)/√2 the step
is the swap of i and j, with integer entries. A product of n steps differs from I by a matrix of rank at
most n.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from automata.errors import InputError


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
