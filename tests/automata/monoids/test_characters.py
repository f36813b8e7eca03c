"""Characters against the tables of the textbooks, and their defining properties by brute force."""

import numpy as np
import pytest

from automata.monoids import (
    Monoid,
    alternating_group,
    conjugacy_classes,
    cyclic_group,
    dihedral_group,
    direct_product,
    irreducible_characters,
    isotypic_components,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from tests.refusals import refusals

ROUNDING = 1e-9
"""Of eigenvectors of matrices of at most 12 rows, with entries of at most 120: about 1e-13 was met."""

GROUPS = [
    cyclic_group(1),
    cyclic_group(2),
    cyclic_group(7),
    quaternion_group(),
    dihedral_group(5),
    dihedral_group(6),
    alternating_group(4),
    alternating_group(5),
    symmetric_group(4),
    symmetric_group(5),
    direct_product(cyclic_group(3), symmetric_group(3)),
]


def cycle_type(name: str) -> tuple[int, ...]:
    """Return the lengths of the cycles of a permutation in one-line form, the longest first."""
    images, left, lengths = [int(letter) - 1 for letter in name], set(range(len(name))), []
    while left:
        start = point = left.pop()
        length = 1
        while (point := images[point]) != start:
            left.discard(point)
            length += 1
        lengths.append(length)
    return tuple(sorted(lengths, reverse=True))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_classes_are_those_of_conjugation(group: Monoid) -> None:
    classes = conjugacy_classes(group)
    for x in range(group.order):
        conjugates = {group.multiply(g, x, group.inverse(g)) for g in range(group.order)}
        assert conjugates == set(np.flatnonzero(classes == classes[x]).tolist())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_characters_are_orthonormal_as_many_as_classes_and_their_squares_add_up(group: Monoid) -> None:
    characters = irreducible_characters(group)
    dimensions = characters[:, group.identity]
    assert len(characters) == conjugacy_classes(group).max() + 1
    np.testing.assert_allclose(
        characters @ characters.conj().T / group.order, np.eye(len(characters)), atol=ROUNDING
    )
    np.testing.assert_allclose((dimensions**2).sum(), group.order, atol=ROUNDING)
    assert (np.sort(dimensions.real.round()) == dimensions.real.round()).all()
    np.testing.assert_allclose(characters[0], 1, atol=ROUNDING)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_characters_satisfy_the_functional_equation(group: Monoid) -> None:
    """Frobenius: χ(x) χ(y) = χ(1)/|G| Σ_g χ(x g y g⁻¹), which nothing but irreducible characters does."""
    characters = irreducible_characters(group)
    rng = np.random.default_rng(0)
    for x, y in rng.integers(0, group.order, (10, 2)).tolist():
        moved = [group.multiply(x, g, y, group.inverse(g)) for g in range(group.order)]
        for character in characters:
            right = character[group.identity] * character[moved].mean()
            assert abs(character[x] * character[y] - right) < ROUNDING * max(1, abs(right))


S5_TABLE = {  # James and Kerber, the representation theory of the symmetric group; partitions of 5
    (1, 1, 1, 1, 1): [1, 1, 4, 4, 5, 5, 6],
    (2, 1, 1, 1): [1, -1, 2, -2, 1, -1, 0],
    (2, 2, 1): [1, 1, 0, 0, 1, 1, -2],
    (3, 1, 1): [1, 1, 1, 1, -1, -1, 0],
    (3, 2): [1, -1, -1, 1, 1, -1, 0],
    (4, 1): [1, -1, 0, 0, -1, 1, 0],
    (5,): [1, 1, -1, -1, 0, 0, 1],
}


def test_characters_of_s5_are_those_of_the_table() -> None:
    group = symmetric_group(5)
    expected = np.array([S5_TABLE[cycle_type(name)] for name in group.element_names]).T
    np.testing.assert_allclose(irreducible_characters(group), expected, atol=ROUNDING)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_components_of_the_group_itself(group: Monoid) -> None:
    """Orthogonal projections that add up to 1, are moved into themselves, and have d² dimensions each."""
    components = isotypic_components(group.table.T)  # by multiplication from the right
    total = sum(part.projection for part in components)
    np.testing.assert_allclose(total, np.eye(group.order), atol=ROUNDING)
    for part in components:
        projection = part.projection
        np.testing.assert_allclose(projection @ projection, projection, atol=ROUNDING)
        np.testing.assert_allclose(projection, projection.T, atol=ROUNDING)
        pair = 2 if "+" in part.name else 1
        assert part.size == pair * part.dimension**2
        for g in range(group.order):
            for moved in (group.table[:, g], group.table[g]):  # both ways: the component is a two-sided ideal
                np.testing.assert_allclose(projection[np.ix_(moved, moved)], projection, atol=ROUNDING)


def test_components_of_an_action_on_points() -> None:
    """S4 on pairs of points: by Young's rule 1 + 3 + 2, each of them once."""
    pairs = [[a, b] for a in range(4) for b in range(a + 1, 4)]
    moves = [[1, 2, 3, 0], [1, 0, 2, 3]]
    on_pairs = [[pairs.index(sorted((move[a], move[b]))) for a, b in pairs] for move in moves]
    assert [(part.dimension, part.size) for part in isotypic_components(on_pairs)] == [(1, 1), (2, 2), (3, 3)]


test_what_is_no_group_is_refused = refusals(
    (lambda: irreducible_characters(reset_monoid(2)), "is no group"),
    (lambda: isotypic_components([[0, 0]]), "sends two points to one"),
    (lambda: isotypic_components(symmetric_group(4).table.T, largest_order=10), "largest_order is 10"),
)
