"""The named groups, and the aperiodic monoid that stands beside them in the word problem A5 × M."""

import numpy as np

from automata.checks import check_integer
from automata.monoids.monoid import Monoid
from automata.monoids.transformations import permutation_group


def symmetric_group(degree: int) -> Monoid:
    """Return S_n, all n! permutations of 1 … n, named and ordered as in ``permutation_group``.

    Raises:
        InputError: the degree is below 1, or above 7, whose Cayley table has 25 million entries.

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

    Raises:
        InputError: the degree is below 1 or above 7.

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

    Raises:
        InputError: the order is below 1 or above 5040.

    Example:
        >>> cyclic_group(60).multiply(45, 30)
        15
    """
    check_integer("order", order, 1, 5040)
    return Monoid(np.add.outer(np.arange(order), np.arange(order)) % order, name=f"Z{order}")


def dihedral_group(sides: int) -> Monoid:
    """Return the symmetries of the regular polygon: 2n elements r^k and r^k·s, with s·r = r⁻¹·s.

    Raises:
        InputError: there are fewer than 1 or more than 2520 sides.

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
    likely as the others.

    Raises:
        InputError: there are fewer than 1 or more than 5000 resets.

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
