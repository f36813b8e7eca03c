"""Properties of a bare Cayley table: identity, associativity, generators, powers, commutators.

A table is an int64 array of shape ``[n, n]`` whose entry ``table[a, b]`` is the product a·b of the elements
numbered a and b. Everything here is vectorised over whole rows; ``automata.monoids.monoid`` wraps it as an
object.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_members, shown
from automata.errors import InputError

IntArray = NDArray[np.int64]
"""Numbers of elements or states."""

_ENTRIES_AT_ONCE = 2**22  # bounds the memory of one block of the associativity test to 32 MiB an array
_MOST_WORK = 2 * 10**9  # products that the associativity test compares; some seconds


def as_array(field: str, values: object) -> NDArray[Any]:
    """Return the values as an array; InputError, naming the field, if they make none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{field} is {shown(values)}; give rows of one length") from None


def float_array(field: str, values: ArrayLike, remedy: str) -> NDArray[np.float64]:
    """Return a copy of the values as float64; InputError, naming the field, if they are not numbers."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{field} is {shown(values)}; give {remedy}") from None


def integer_array(field: str, values: ArrayLike) -> IntArray:
    """Return the values as int64; InputError, naming the field, if they are not integers."""
    array = as_array(field, values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{field} holds {array.dtype} entries; give integers")
    return array.astype(np.int64, copy=False)


def token_array(tokens: ArrayLike, vocabulary_size: int) -> IntArray:
    """Return tokens ``[batch, length]``; InputError for another shape or a number that is no token."""
    given = integer_array("tokens", tokens)
    if given.ndim != 2 or not given.size:
        raise InputError(f"tokens has shape {list(given.shape)}; give [batch, length], both at least 1")
    check_members("tokens", np.unique(given).tolist(), vocabulary_size)
    return given


def find_identity(table: IntArray) -> int | None:
    """Return the two-sided identity e, with e·x = x·e = x for every x, or None if there is none."""
    elements = np.arange(len(table))
    two_sided = (table == elements).all(axis=1) & (table == elements[:, None]).all(axis=0)
    found = np.flatnonzero(two_sided)
    return int(found[0]) if found.size else None


def generating_set(table: IntArray, identity: int) -> tuple[int, ...]:
    """Return elements whose products ((g1·g2)·g3)·… reach everything, none reachable from those before it.

    The smallest element not reached yet is added until nothing is missing, so a group of order n gets at
    most log2(n) generators. The table need not be associative.
    """
    reached = np.zeros(len(table), dtype=bool)
    reached[identity] = True
    generators: list[int] = []
    while not reached.all():
        generators.append(int(np.argmin(reached)))
        chosen = np.array(generators)
        fresh = table[np.flatnonzero(reached), chosen[-1]]
        while (fresh := np.unique(fresh[~reached[fresh]])).size:
            reached[fresh] = True
            fresh = table[np.ix_(fresh, chosen)].ravel()
    return tuple(generators)


def generated_elements(table: IntArray, identity: int, generators: Sequence[int]) -> IntArray:
    """Return the sorted elements of the submonoid that the generators generate."""
    reached = np.zeros(len(table), dtype=bool)
    fresh = np.array([identity], dtype=np.int64)
    while fresh.size:
        reached[fresh] = True
        products = table[np.ix_(fresh, np.asarray(generators, dtype=np.int64))].ravel()
        fresh = np.unique(products[~reached[products]])
    return np.flatnonzero(reached).astype(np.int64)


def non_associative_triple(table: IntArray, generators: Sequence[int]) -> tuple[int, int, int] | None:
    """Return a triple (a, b, c) with (a·b)·c ≠ a·(b·c), or None where the table is associative.

    Light's test: the elements b with (a·b)·c = a·(b·c) for all a, c are closed under products, so that only
    b in a generating set must be tried (Clifford and Preston, The Algebraic Theory of Semigroups, §1.2).
    That makes O(n²) for each generator instead of O(n³).
    """
    work = len(generators) * table.size
    if work > _MOST_WORK:
        raise InputError(
            f"table of order {len(table)} has {len(generators)} generators, too many to check whether it is "
            "associative; give a smaller one"
        )
    rows = max(1, _ENTRIES_AT_ONCE // len(table))
    for middle in generators:
        for start in range(0, len(table), rows):
            block = table[start : start + rows]
            wrong = table[block[:, middle]] != block[:, table[middle]]
            if wrong.any():
                first, last = np.unravel_index(np.argmax(wrong), wrong.shape)
                return start + int(first), int(middle), int(last)
    return None


def idempotent_powers(table: IntArray) -> IntArray:
    """Return x^ω for every x: the one idempotent among the powers x, x², x³, …; shape ``[n]``."""
    base = np.arange(len(table))
    for _ in range(len(table).bit_length()):  # x^(2^k) with 2^k > n lies on the cycle of the powers of x
        base = table[base, base]
    powers = base.copy()
    open_ = np.flatnonzero(table[powers, powers] != powers)
    while open_.size:
        powers[open_] = table[powers[open_], base[open_]]
        open_ = open_[table[powers[open_], powers[open_]] != powers[open_]]
    return powers.astype(np.int64)


def commutator_subgroup(table: IntArray, identity: int, members: IntArray, inverses: IntArray) -> IntArray:
    """Return the sorted elements of [H, H], generated by x⁻¹·y⁻¹·x·y for x and y in the subgroup H.

    Shapes: table ``[n, n]``.
    """
    inverse = inverses[members]
    commutators = np.unique(table[table[np.ix_(inverse, inverse)], table[np.ix_(members, members)]])
    reached = np.zeros(len(table), dtype=bool)
    reached[identity] = True
    chosen: list[int] = []
    # few of the commutators generate all of them: closing under a small set is what keeps this fast
    while not reached[commutators].all():
        chosen.append(int(commutators[np.argmin(reached[commutators])]))
        reached[generated_elements(table, identity, chosen)] = True
    return np.flatnonzero(reached).astype(np.int64)
