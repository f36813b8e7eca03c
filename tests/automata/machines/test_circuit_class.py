import numpy as np
import pytest

from automata.machines.circuit_class import Kind, circuit_class
from automata.machines.dfa import DFA
from automata.machines.named_dfas import (
    cyclic_navigation_dfa,
    dyck_dfa,
    flip_flop_dfa,
    modular_counter_dfa,
    monoid_dfa,
    parity_dfa,
)
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


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        (flip_flop_dfa(3), "aperiodic"),
        (dyck_dfa(3), "aperiodic"),
        (reset_monoid(3), "aperiodic"),
        (regular_expression_dfa("(a|b)*ab(a|b)*"), "aperiodic"),
        (regular_expression_dfa("(ab)*"), "aperiodic"),
        (regular_expression_dfa("(aa)*"), "solvable"),
        (parity_dfa(), "solvable"),
        (modular_counter_dfa(6), "solvable"),
        (cyclic_navigation_dfa(5), "solvable"),
        (symmetric_group(4), "solvable"),
        (direct_product(symmetric_group(3), reset_monoid(2)), "solvable"),
        (with_zero(cyclic_group(3)), "solvable"),
        (alternating_group(5), "non-solvable"),
        (symmetric_group(5), "non-solvable"),
        (with_zero(alternating_group(5)), "non-solvable"),
        (monoid_dfa(alternating_group(5)), "non-solvable"),
    ],
)
def test_classes_of_known_automata(subject: Monoid | DFA, kind: Kind) -> None:
    assert circuit_class(subject).kind == kind


@pytest.mark.parametrize("subject", [parity_dfa(), with_zero(alternating_group(5)), symmetric_group(5)])
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
    assert len(result.witness_names) == witness.order


def test_the_smallest_deciding_subgroup_is_the_witness() -> None:
    both = direct_product(with_zero(cyclic_group(2)), with_zero(cyclic_group(3)))
    assert len(circuit_class(both).witness) == 2
    # Z2 × A5 and the solvable Z2: only the former decides
    hard = direct_product(with_zero(cyclic_group(2)), with_zero(alternating_group(5)))
    assert len(circuit_class(hard).witness) == 60


def test_aperiodic_has_no_witness() -> None:
    result = circuit_class(reset_monoid(2))
    assert (result.witness, result.derived_series) == ((), ())


def test_a_group_can_hide_in_a_monoid_without_units() -> None:
    # both symbols leave 0 for good, so only the identity is a unit; on {1, 2} the first one is a swap
    dfa = DFA.from_table([[1, 2], [2, 1], [1, 2]], accepting=[0])
    result = circuit_class(dfa)
    assert result.monoid.units == (result.monoid.identity,)
    assert result.kind == "solvable"
    assert len(result.witness) == 2
