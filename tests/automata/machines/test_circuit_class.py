import numpy as np
import pytest

from automata.machines import named_dfas as named
from automata.machines.circuit_class import Kind, circuit_class
from automata.machines.dfa import DFA
from automata.machines.regular_expressions import regular_expression_dfa
from automata.monoids.groups import alternating_group, cyclic_group, reset_monoid, symmetric_group
from automata.monoids.monoid import Monoid, direct_product


def with_zero(group: Monoid) -> Monoid:
    """Adjoin an identity and a zero, so that the group sits at an idempotent that is neither."""
    size = group.order
    table = np.full((size + 2, size + 2), size + 1)
    table[:size, :size] = group.table
    table[size, :], table[:, size] = np.arange(size + 2), np.arange(size + 2)
    return Monoid(table)


KNOWN: dict[Kind, list[Monoid | DFA]] = {
    "aperiodic": [
        *(
            named.flip_flop_dfa(3),
            named.dyck_dfa(3),
            reset_monoid(3),
            regular_expression_dfa("(a|b)*ab(a|b)*"),
        ),
        *(regular_expression_dfa("(ab)*"),),
    ],
    "solvable": [
        *(regular_expression_dfa("(aa)*"), named.parity_dfa(), named.modular_counter_dfa(6)),
        *(named.cyclic_navigation_dfa(5), symmetric_group(4)),
        *(direct_product(symmetric_group(3), reset_monoid(2)), with_zero(cyclic_group(3))),
    ],
    "non-solvable": [
        *(alternating_group(5), symmetric_group(5), with_zero(alternating_group(5))),
        *(named.monoid_dfa(alternating_group(5)),),
    ],
}


@pytest.mark.parametrize(("kind", "subject"), [(kind, one) for kind, every in KNOWN.items() for one in every])
def test_classes_of_known_automata(kind: Kind, subject: Monoid | DFA) -> None:
    found = circuit_class(subject)
    assert found.kind == kind
    assert bool(found.witness) == bool(found.derived_series) == (kind != "aperiodic")


@pytest.mark.parametrize("subject", [named.parity_dfa(), with_zero(alternating_group(5)), symmetric_group(5)])
def test_the_witness_is_a_group_of_the_claimed_kind(subject: Monoid | DFA) -> None:
    result = circuit_class(subject)
    members = np.array(result.witness)
    sub_table = np.searchsorted(members, result.monoid.table[np.ix_(members, members)])
    assert (members[sub_table] == result.monoid.table[np.ix_(members, members)]).all()
    witness = Monoid(sub_table)
    assert witness.is_group
    assert witness.order > 1
    assert witness.is_solvable == (result.kind == "solvable")
    assert result.derived_series == tuple(len(term) for term in witness.derived_series())


def test_the_smallest_deciding_subgroup_is_the_witness() -> None:
    both = direct_product(with_zero(cyclic_group(2)), with_zero(cyclic_group(3)))
    assert len(circuit_class(both).witness) == 2
    # Z2 × A5 and the solvable Z2: only the former decides
    hard = direct_product(with_zero(cyclic_group(2)), with_zero(alternating_group(5)))
    assert len(circuit_class(hard).witness) == 60


def test_a_group_can_hide_in_a_monoid_without_units() -> None:
    # both symbols leave 0 for good, so only the identity is a unit; on {1, 2} the first one is a swap
    dfa = DFA.from_table([[1, 2], [2, 1], [1, 2]], accepting=[0])
    result = circuit_class(dfa)
    assert result.monoid.units == (result.monoid.identity,)
    assert result.kind == "solvable"
    assert len(result.witness) == 2
