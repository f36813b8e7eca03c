import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from automata.errors import InputError
from automata.monoids import groups
from automata.monoids.cayley import generating_set, idempotent_powers, non_associative_triple
from automata.monoids.monoid import Monoid, direct_product
from tests.refusals import refusals

EXAMPLES = {
    "S4": groups.symmetric_group(4),
    "A5": groups.alternating_group(5),
    "Z12": groups.cyclic_group(12),
    "D6": groups.dihedral_group(6),
    "Q8": groups.quaternion_group(),
    "U3": groups.reset_monoid(3),
    "S3xU2": direct_product(groups.symmetric_group(3), groups.reset_monoid(2)),
    "trivial": Monoid([[0]]),
}


@pytest.fixture(params=EXAMPLES, name="monoid")
def example(request: pytest.FixtureRequest) -> Monoid:
    return EXAMPLES[request.param]


@given(
    table=st.integers(2, 4).flatmap(lambda n: st.lists(st.integers(0, n - 1), min_size=n * n, max_size=n * n))
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_light_test_agrees_with_all_triples(table: list[int]) -> None:
    size = round(len(table) ** 0.5)
    array = np.array(table).reshape(size, size)
    array[0], array[:, 0] = np.arange(size), np.arange(size)  # 0 is the identity
    triple = non_associative_triple(array, generating_set(array, 0))
    left, right = array[array], array[:, array]  # (a·b)·c and a·(b·c), all triples at once
    assert (triple is None) == (left == right).all()
    if triple is not None:
        a, b, c = triple
        assert array[array[a, b], c] != array[a, array[b, c]]


def test_generators_generate_and_none_is_redundant(monoid: Monoid) -> None:
    assert monoid.closure(monoid.generators) == tuple(range(monoid.order))
    for position, generator in enumerate(monoid.generators):
        assert generator not in monoid.closure(monoid.generators[:position])


def test_idempotent_powers_are_idempotent_powers(monoid: Monoid) -> None:
    for element, omega in enumerate(idempotent_powers(monoid.table).tolist()):
        powers = {monoid.power(element, exponent) for exponent in range(1, 2 * monoid.order + 1)}
        assert omega in powers
        assert {power for power in powers if monoid.multiply(power, power) == power} == {omega}


def test_maximal_subgroups_by_definition(monoid: Monoid) -> None:
    for e, subgroup in monoid.maximal_subgroups.items():
        local = {monoid.multiply(e, x, e) for x in range(monoid.order)}
        units = {
            x for x in local if any(monoid.multiply(x, y) == e and monoid.multiply(y, x) == e for y in local)
        }
        assert set(subgroup) == units


def test_group_properties(monoid: Monoid) -> None:
    has_inverse = [
        any(monoid.multiply(x, y) == monoid.identity == monoid.multiply(y, x) for y in range(monoid.order))
        for x in range(monoid.order)
    ]
    assert monoid.is_group == all(has_inverse)
    assert monoid.units == tuple(np.flatnonzero(has_inverse))
    if monoid.is_group:
        assert (monoid.table[np.arange(monoid.order), monoid.inverses] == monoid.identity).all()
        # an aperiodic group is trivial
        assert monoid.is_aperiodic == (monoid.order == 1)


def test_equality_ignores_numbering_and_name(monoid: Monoid) -> None:
    order = np.random.default_rng(0).permutation(monoid.order)
    rank = np.argsort(order)
    names = [monoid.element_names[x] for x in order]
    shuffled = Monoid(rank[monoid.table[np.ix_(order, order)]], names, "another name")
    assert shuffled == monoid
    assert hash(shuffled) == hash(monoid)
    if monoid.order > 1:
        assert monoid != Monoid(monoid.table, names)
    assert monoid != "a string"


def test_immutable() -> None:
    group = groups.cyclic_group(3)
    with pytest.raises(AttributeError):
        group.name = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        group.table[0, 0] = 1
    table = np.array([[0, 1], [1, 0]])
    monoid = Monoid(table)
    table[0, 0] = 1
    assert monoid.multiply(0, 0) == 0


def test_power_and_inverse() -> None:
    S4 = groups.symmetric_group(4)
    cycle = S4.index("2341")
    assert S4.power(cycle, -1) == S4.inverse(cycle) == S4.index("4123")
    assert S4.power(cycle, 4 * 10**20 + 1) == cycle
    assert S4.power(cycle, 0) == S4.identity


def test_direct_product_multiplies_by_coordinates() -> None:
    left, right = groups.symmetric_group(3), groups.reset_monoid(2)
    both = direct_product(left, right)
    rng = np.random.default_rng(1)
    for a, b, c, d in rng.integers(0, [6, 3, 6, 3], size=(50, 4)).tolist():
        expected = left.multiply(a, c) * 3 + right.multiply(b, d)
        assert both.multiply(a * 3 + b, c * 3 + d) == expected


def test_derived_series_of_a_subgroup_of_a_monoid() -> None:
    # all maps of three points: the maximal subgroup at the identity is S3, at a map of rank 2 it is Z2
    elements, table, _ = groups.transformation_closure([[1, 2, 0], [1, 0, 2], [0, 0, 2]], "reading")
    full = Monoid(table)
    assert full.order == 27
    orders = {e: [len(term) for term in full.derived_series(e)] for e in full.idempotents}
    ranks = {e: len(set(elements[e].tolist())) for e in full.idempotents}
    assert {(ranks[e], tuple(series)) for e, series in orders.items()} == {
        (3, (6, 3, 1)),
        (2, (2, 1)),
        (1, (1,)),
    }
    assert full.is_solvable
    assert not full.is_aperiodic


Z3 = groups.cyclic_group(3)
test_bad_input_is_refused = refusals(
    (lambda: Monoid([[0, 1], [1, 2]]), "not closed: the product of 1 and 1 is 2"),
    (lambda: Monoid([[0, 1], [1, -1]]), "the product of 1 and 1 is -1"),
    (lambda: Monoid([[0, 1]]), r"shape \[1, 2\]"),
    (lambda: Monoid([]), "at least one element"),
    (lambda: Monoid([[0.0, 1.0], [1.0, 0.5]]), "float64"),
    (lambda: Monoid([[0, 0], [0, 0]]), "no identity"),
    (lambda: Monoid([[0, 1], [0, 1]]), "no identity"),  # of the left alone
    (lambda: Monoid([[0, 1, 2], [1, 0, 0], [2, 0, 1]], "xyz"), r"\(y·y\)·z = z but y·\(y·z\) = y"),
    (lambda: Monoid([[0, 1], [1, 0]], ["a"]), "1 entries"),
    (lambda: Monoid([[0, 1], [1, 0]], ["a", "a"]), "'a' twice"),
    (lambda: Z3.multiply(3), "elements of Z3 holds 3"),
    (lambda: Z3.closure(np.array([1.5])), "an element of Z3 is .*1.5.*; give a whole number"),
    (lambda: Z3.index("x"), "element 'x' is not in Z3"),
    (lambda: Z3.derived_series(1), "idempotent is 1"),
    (lambda: groups.reset_monoid(2).inverse(1), "'a' has no inverse in U2"),
    (lambda: groups.reset_monoid(2).inverses, "U2 is not a group"),
    (lambda: direct_product(), "factors is empty"),
    # beyond memory and time
    (lambda: direct_product(groups.cyclic_group(2000), groups.cyclic_group(2000)), "GiB of memory"),
    (lambda: non_associative_triple(np.broadcast_to(0, (2000, 2000)), range(2000)), "too many to check"),
)


def test_the_entries_of_all_products_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_ENTRIES", 10**6)
    tracemalloc.start()
    with pytest.raises(InputError, match="too many products"):
        groups.transformation_closure([np.roll(np.arange(10**4), 1)], "functions")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 8 * 10**6


@pytest.mark.parametrize("limit", ["_MOST_ENTRIES", "_MOST_COMPOSED"])
def test_too_many_products_are_refused_as_soon_as_they_are(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, limit, 100)
    with pytest.raises(InputError, match="generators are 1 maps of 30 and have too many products"):
        groups.transformation_closure([np.roll(np.arange(30), 1)], "reading")
