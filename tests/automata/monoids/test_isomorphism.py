import numpy as np
import pytest

from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from automata.monoids.monoid import Monoid, direct_product, find_isomorphism


@pytest.mark.parametrize(
    "monoid",
    [
        alternating_group(5),
        quaternion_group(),
        reset_monoid(4),
        direct_product(symmetric_group(3), reset_monoid(2)),
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
    A4, U2 = alternating_group(4), reset_monoid(2)
    assert find_isomorphism(A4, Monoid(A4.table.T)) is not None
    assert find_isomorphism(U2, Monoid(U2.table.T)) is None


def test_groups_of_order_eight_differ() -> None:
    abelian = direct_product(cyclic_group(4), cyclic_group(2))
    assert find_isomorphism(abelian, quaternion_group()) is None
    assert find_isomorphism(abelian, cyclic_group(8)) is None
    assert find_isomorphism(cyclic_group(4), cyclic_group(5)) is None


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
