"""Monoids of transformations; the named groups, and the aperiodic monoid of the word problem A5 × M."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_integer, check_type, checked
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.monoids.monoid import Monoid

LARGEST_ORDER = 6000
"""The default limit of a closure: a Cayley table of this order takes 290 MB."""
_MOST_ENTRIES = 2**27
"""Entries of all maps of a closure, 1 GiB; 6000 maps of 20,000 states have as many."""
_MOST_COMPOSED = 10**10
"""Entries of all products of a map and a generator; half a minute."""


def permutation_group(generators: Sequence[Sequence[int]], name: str | None = None) -> Monoid:
    """Return the group of all products of the given permutations.

    A permutation σ is a one-line tuple (σ(1), …, σ(n)), and the product is that of functions:
    (π·σ)(i) = π(σ(i)). Multiplication from the right is the state update of the permutation word problem,
    ``state_t[i] = state_{t-1}[σ_t[i]]``. Elements are in lexicographic order, the identity first, and are
    named by their one-line form. InputError for no generator, for one that is not a permutation of 1 … n, or
    more elements than ``LARGEST_ORDER``.

    Example:
        >>> klein = permutation_group([(2, 1, 4, 3), (3, 4, 1, 2)])
        >>> klein.element_names
        ('1234', '2143', '3412', '4321')
    """
    check_type("generators", generators, Sequence, "give a list of permutations of 1 … n, each a tuple")
    if not generators:
        raise InputError("generators is empty; give at least one permutation")
    for permutation in generators:
        check_type("generators: one entry", permutation, Iterable, "give tuples such as (2, 1, 3)")
    degree = len(generators[0])
    for permutation in generators:
        if sorted(permutation) != list(range(1, degree + 1)):
            raise InputError(
                f"generators holds {tuple(permutation)}, which is not a permutation of 1 … {degree}; "
                "give one-line tuples that name each of 1 … n once"
            )
    elements, table, _ = transformation_closure(np.array(generators) - 1, composition="functions")
    order = np.lexsort(elements.T[::-1])
    rank = np.argsort(order)
    names = [one_line_name(row) for row in elements[order]]
    return Monoid(
        rank[table[np.ix_(order, order)]], names, name or f"permutation group of order {len(order)}"
    )


@checked
def transformation_closure(
    generators: ArrayLike, composition: Literal["functions", "reading"], largest_order: int = LARGEST_ORDER
) -> tuple[IntArray, IntArray, list[tuple[int, ...]]]:
    """Return all products of the given maps, with their Cayley table and a shortest word for each.

    InputError if the array is not ``[k, n]``, an entry is outside 0 … n-1, or there are more elements than
    ``largest_order`` or more entries of products than 10¹⁰, as soon as that is known.

    Args:
        generators: shape ``[k, n]``, entries in 0 … n-1; row a is the map i ↦ ``generators[a][i]``.
        composition: ``"functions"`` for (f·g)(i) = f(g(i)), ``"reading"`` for f first, (f·g)(i) = g(f(i)),
            which is how an automaton reads a word.
        largest_order: the number of elements at which to give up.

    Returns:
        The elements ``[N, n]`` in the order of their words (the identity first, shorter words before longer
        ones, then lexicographically); the table ``[N, N]``; and the words, as tuples of row numbers.

    Example:
        Two resets generate, with the identity, three maps:

        >>> elements, table, words = transformation_closure([[0, 0], [1, 1]], composition="reading")
        >>> elements.tolist(), words
        ([[0, 1], [0, 0], [1, 1]], [(), (0,), (1,)])
    """
    maps = np.array(generators, dtype=np.int64)
    if maps.ndim != 2 or not maps.size:
        raise InputError(f"generators has shape {list(maps.shape)}; give at least one row of n entries")
    degree = maps.shape[1]
    outside = maps[(maps < 0) | (maps >= degree)]
    if outside.size:
        raise InputError(f"generators maps to {outside[0]}; give entries in 0 … {degree - 1}")
    too_many = InputError(
        f"largest_order is {largest_order} and the generators have more products than that; "
        "raise it or give fewer generators"
    )
    distinct: dict[bytes, int] = {}  # generators that are the same map share a column
    columns = np.array([distinct.setdefault(step.tobytes(), len(distinct)) for step in maps])
    if len(distinct) > largest_order:
        raise too_many
    symbols = np.unique(columns, return_index=True)[1].tolist()  # of each column the first
    elements = [np.arange(degree)]
    numbers = {elements[0].tobytes(): 0}
    words: list[tuple[int, ...]] = [()]
    steps: list[
        list[int]
    ] = []  # steps[x][c] is the number of x·generator of column c: the right Cayley graph
    number = 0
    while number < len(elements):
        row = []
        for symbol in symbols:
            current, step = elements[number], maps[symbol]
            product = current[step] if composition == "functions" else step[current]
            key = product.tobytes()
            if key not in numbers:
                if len(elements) == largest_order:
                    raise too_many
                entries = len(elements) * degree
                if entries > _MOST_ENTRIES or entries * len(symbols) > _MOST_COMPOSED:
                    raise InputError(
                        f"generators are {len(symbols)} maps of {degree} and have too many products; give "
                        "smaller or fewer maps"
                    )
                numbers[key] = len(elements)
                elements.append(np.frombuffer(key, np.int64))  # the same bytes, kept once
                words.append((*words[number], symbol))
            row.append(numbers[key])
        steps.append(row)
        number += 1
    right = np.array(steps, dtype=np.int64).reshape(len(elements), len(symbols))
    table = np.empty((len(elements), len(elements)), dtype=np.int64)
    table[:, 0] = np.arange(len(elements))
    prefixes = {word: number for number, word in enumerate(words)}
    for number, word in enumerate(words[1:], start=1):  # x·(w·a) = (x·w)·a: no product is ever composed again
        table[:, number] = right[table[:, prefixes[word[:-1]]], columns[word[-1]]]
    return np.stack(elements), table, words


def one_line_name(images: Sequence[int] | IntArray) -> str:
    """Return the one-line form of a map of {0, …, n-1}, counted from 1: ``"231"``; commas from n = 10."""
    return ("" if len(images) < 10 else ",").join(str(int(image) + 1) for image in images)


def symmetric_group(degree: int) -> Monoid:
    """Return S_n, all n! permutations of 1 … n, named and ordered as in ``permutation_group``.

    InputError if the degree is below 1, or above 7, whose Cayley table has 25 million entries.

    Example:
        >>> S3 = symmetric_group(3)
        >>> S3.order, S3.element_names, S3.is_abelian
        (6, ('123', '132', '213', '231', '312', '321'), False)
    """
    check_integer("degree", degree, 1, 7)
    points = list(range(1, degree + 1))
    generators = [tuple(points[1:] + points[:1])]
    if degree > 1:
        generators.append((2, 1, *points[2:]))
    return permutation_group(generators, f"S{degree}")


def alternating_group(degree: int) -> Monoid:
    """Return A_n, the n!/2 even permutations, which the 3-cycles (1 2 k) generate.

    InputError if the degree is below 1 or above 7.

    Example:
        >>> A5 = alternating_group(5)
        >>> A5.order, A5.is_solvable
        (60, False)
    """
    check_integer("degree", degree, 1, 7)
    points = tuple(range(1, degree + 1))
    cycles = [
        (2, third, *(1 if point == third else point for point in points[2:]))
        for third in range(3, degree + 1)
    ]
    return permutation_group([points, *cycles], f"A{degree}")


def cyclic_group(order: int) -> Monoid:
    """Return Z_n, the residues 0 … n-1 under addition modulo n.

    InputError if the order is below 1 or above 5040.

    Example:
        >>> cyclic_group(60).multiply(45, 30)
        15
    """
    check_integer("order", order, 1, 5040)
    return Monoid(np.add.outer(np.arange(order), np.arange(order)) % order, name=f"Z{order}")


def dihedral_group(sides: int) -> Monoid:
    """Return the symmetries of the regular polygon: 2n elements r^k and r^k·s, with s·r = r⁻¹·s.

    InputError if there are fewer than 1 or more than 2520 sides.

    Example:
        >>> square = dihedral_group(4)
        >>> square.order, square.element_names[square.multiply(square.index("s"), square.index("r"))]
        (8, 'r3s')
    """
    check_integer("sides", sides, 1, 2520)
    rotation = np.tile(np.arange(sides), 2)
    mirrored = np.repeat([0, 1], sides)
    sign = 1 - 2 * mirrored
    rotations = (rotation[:, None] + sign[:, None] * rotation[None, :]) % sides
    table = rotations + sides * (mirrored[:, None] ^ mirrored[None, :])
    turns = ["", "r", *(f"r{k}" for k in range(2, sides))][:sides]
    names = [turn or "1" for turn in turns] + [f"{turn}s" for turn in turns]
    return Monoid(table, names, f"D{sides}")


def quaternion_group() -> Monoid:
    """Return Q8 = {±1, ±i, ±j, ±k}, with i² = j² = k² = i·j·k = -1.

    Example:
        >>> Q8 = quaternion_group()
        >>> Q8.element_names[Q8.multiply(*map(Q8.index, "ijk"))]
        '-1'
    """
    i, j = np.array([[1j, 0], [0, -1j]]), np.array([[0, 1], [-1, 0]])
    units = np.array([np.eye(2), i, j, i @ j])  # entries are 0, ±1 and ±i: no product is rounded
    elements = np.concatenate([units, -units])
    products = np.einsum("aij,bjk->abik", elements, elements)
    table = (products[:, :, None] == elements).all(axis=(3, 4)).argmax(axis=2)
    names = [sign + unit for sign in ("", "-") for unit in "1ijk"]
    return Monoid(table, names, "Q8")


def reset_monoid(resets: int = 3) -> Monoid:
    """Return U_k: an identity and k resets, where x·r = r for every reset r. Order k + 1, aperiodic.

    It is the transition monoid of a memory with k values, "keep" and "write". With k = 3 it is our
    four-element monoid M of the word problem A5 × M: the paper's own is not public, and U_3 has no zero, so
    that a random word does not settle on one element; after a write, each of the three values stays as
    likely as the others. InputError if there are fewer than 1 or more than 5000 resets.

    Example:
        >>> M = reset_monoid()
        >>> M.order, M.is_aperiodic, M.is_group
        (4, True, False)
        >>> M.element_names[M.multiply(M.index("a"), M.index("1"), M.index("c"), M.index("b"))]
        'b'
    """
    check_integer("resets", resets, 1, 5000)
    table = np.tile(np.arange(resets + 1), (resets + 1, 1))
    table[:, 0] = np.arange(resets + 1)
    letters = "abcdefgh" if resets <= 8 else [f"r{k}" for k in range(1, resets + 1)]
    return Monoid(table, ["1", *letters[:resets]], f"U{resets}")
