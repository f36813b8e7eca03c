"""Groups against SymPy, isomorphisms; characters against the tables of textbooks and by definition."""

import numpy as np
import pytest
from sympy.combinatorics import Permutation, PermutationGroup
from sympy.combinatorics.named_groups import AlternatingGroup, CyclicGroup, DihedralGroup, SymmetricGroup

from automata.monoids import (
    alternating_group,
    conjugacy_classes,
    cyclic_group,
    dihedral_group,
    groups,
    irreducible_characters,
    isotypic_components,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from automata.monoids.monoid import Monoid, direct_product, find_isomorphism
from tests.refusals import refusals

PAIRS = [
    *((groups.symmetric_group(n), SymmetricGroup(n)) for n in range(2, 6)),
    *((groups.alternating_group(n), AlternatingGroup(n)) for n in range(3, 6)),
    *((groups.cyclic_group(n), CyclicGroup(n)) for n in (2, 7, 12, 60)),
    *((groups.dihedral_group(n), DihedralGroup(n)) for n in (3, 4, 7)),
]


@pytest.mark.parametrize(("ours", "oracle"), PAIRS, ids=[monoid.name for monoid, _ in PAIRS])
def test_invariants_equal_those_of_sympy(ours: Monoid, oracle: PermutationGroup) -> None:
    assert ours.is_group
    assert ours.order == oracle.order()
    assert ours.is_abelian == oracle.is_abelian
    assert ours.is_solvable == oracle.is_solvable
    assert [len(term) for term in ours.derived_series()] == [term.order() for term in oracle.derived_series()]


def test_product_is_composition_of_functions() -> None:
    S5 = groups.symmetric_group(5)
    images = np.array([[int(digit) - 1 for digit in name] for name in S5.element_names])
    rng = np.random.default_rng(0)
    for a, b in rng.integers(0, 120, size=(100, 2)).tolist():
        # sympy multiplies from left to right, (p * q)(i) = q(p(i)), so that our a·b is its b * a
        expected = Permutation(images[b].tolist()) * Permutation(images[a].tolist())
        assert S5.element_names[S5.multiply(a, b)] == groups.one_line_name(expected.array_form)


def test_permutation_group_equals_sympy_on_random_generators() -> None:
    rng = np.random.default_rng(7)
    for _ in range(3):
        generators = [rng.permutation(6) for _ in range(2)]
        oracle = PermutationGroup([Permutation(generator.tolist()) for generator in generators])
        ours = groups.permutation_group([(generator + 1).tolist() for generator in generators])
        assert ours.order == oracle.order()
        assert set(ours.element_names) == {
            groups.one_line_name(element.array_form) for element in oracle.elements
        }
        assert ours.is_solvable == oracle.is_solvable


def test_groups_of_order_eight_differ() -> None:
    Q8, D4 = groups.quaternion_group(), groups.dihedral_group(4)
    assert sum(Q8.multiply(x, x) == Q8.identity for x in range(8)) == 2  # only ±1
    assert sum(D4.multiply(x, x) == D4.identity for x in range(8)) == 6
    assert find_isomorphism(Q8, D4) is None
    abelian = direct_product(groups.cyclic_group(4), groups.cyclic_group(2))
    assert find_isomorphism(abelian, Q8) is None
    assert find_isomorphism(abelian, groups.cyclic_group(8)) is None
    assert find_isomorphism(groups.cyclic_group(4), groups.cyclic_group(5)) is None


def test_reset_monoid_remembers_the_last_reset() -> None:
    M = groups.reset_monoid(3)
    rng = np.random.default_rng(2)
    for word in rng.integers(0, 4, size=(50, 6)).tolist():
        resets = [letter for letter in word if letter != M.identity]
        assert M.multiply(*word) == (resets[-1] if resets else M.identity)
    assert M.is_aperiodic
    # no zero: nothing absorbs every later token
    assert not any((M.table[x] == x).all() for x in range(4))


def test_reading_order_is_the_opposite_of_composition() -> None:
    generators = [[1, 2, 0], [1, 0, 2]]
    elements, table, words = groups.transformation_closure(generators, "reading")
    cycle, swap = words.index((0,)), words.index((1,))
    assert elements[table[cycle, swap]].tolist() == [0, 2, 1]  # first the cycle, then the swap: 0→1→0
    elements, table, words = groups.transformation_closure(generators, "functions")
    cycle, swap = words.index((0,)), words.index((1,))
    assert elements[table[cycle, swap]].tolist() == [2, 1, 0]  # cycle(swap(i)): 0→1→2


def test_words_of_a_closure_multiply_to_their_elements() -> None:
    generators = np.random.default_rng(3).integers(0, 4, size=(2, 4))
    elements, table, words = groups.transformation_closure(generators, "reading")
    for element, word in zip(elements, words, strict=True):
        state = np.arange(4)
        for letter in word:
            state = generators[letter][state]
        assert (state == element).all()
    composed = elements[:, elements]  # [g, f, i] = g(f(i)), which is f·g in reading order
    assert (elements[table] == composed.transpose(1, 0, 2)).all()


@pytest.mark.parametrize(
    "monoid",
    [
        groups.alternating_group(5),
        groups.quaternion_group(),
        groups.reset_monoid(4),
        direct_product(groups.symmetric_group(3), groups.reset_monoid(2)),
    ],
    ids=lambda monoid: monoid.name,
)
@pytest.mark.parametrize("seed", range(2))
def test_finds_a_random_renumbering(monoid: Monoid, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(monoid.order)
    rank = np.argsort(order)
    other = Monoid(rank[monoid.table[np.ix_(order, order)]])
    phi = find_isomorphism(monoid, other)
    assert phi is not None
    assert sorted(phi) == list(range(monoid.order))
    assert (phi[monoid.table] == other.table[np.ix_(phi, phi)]).all()


def test_a_group_is_isomorphic_to_its_opposite_and_resets_are_not() -> None:
    A4, U2 = groups.alternating_group(4), groups.reset_monoid(2)
    assert find_isomorphism(A4, Monoid(A4.table.T)) is not None
    assert find_isomorphism(U2, Monoid(U2.table.T)) is None


def test_heisenberg_group_and_z3_cubed() -> None:
    # of order 27 and exponent 3 both: all elements other than 1 have order 3, only the structure differs
    triples = np.array(np.meshgrid(*[range(3)] * 3, indexing="ij")).reshape(3, -1).T
    a, b = triples[:, None, :], triples[None, :, :]
    total = (a + b) % 3
    twisted = total.copy()
    twisted[..., 2] = (total[..., 2] + a[..., 0] * b[..., 1]) % 3
    heisenberg, plain = (Monoid(entries @ [9, 3, 1]) for entries in (twisted, total))
    assert find_isomorphism(heisenberg, plain) is None
    assert find_isomorphism(heisenberg, heisenberg) is not None


ROUNDING = 1e-9
"""The error of eigenvectors: about 1e-13 was met, for 12 rows and entries of at most 120."""

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


test_bad_input_is_refused = refusals(
    (lambda: groups.symmetric_group(0), "degree is 0"),
    (lambda: groups.alternating_group(8), "degree is 8"),
    (lambda: groups.cyclic_group(0), "order is 0"),
    (lambda: groups.dihedral_group(0), "sides is 0"),
    (lambda: groups.reset_monoid(0), "resets is 0"),
    (lambda: groups.permutation_group([]), "generators is empty"),
    (lambda: groups.permutation_group([(0, 1, 2)]), r"\(0, 1, 2\)"),
    (lambda: groups.permutation_group([(1, 2), (1, 2, 3)]), r"\(1, 2, 3\)"),
    (lambda: groups.transformation_closure([[0, 2]], "reading"), "maps to 2"),
    (lambda: groups.transformation_closure([], "reading"), "at least one row"),
    (lambda: groups.transformation_closure([[1, 2, 0]], "reading", largest_order=2), "largest_order is 2"),
    (lambda: irreducible_characters(reset_monoid(2)), "is no group"),
    (lambda: isotypic_components([[0, 0]]), "sends two points to one"),
    (lambda: isotypic_components(symmetric_group(4).table.T, largest_order=10), "largest_order is 10"),
)
