"""Monoids and groups as exact multiplication tables."""

from automata.monoids.cayley import IntArray
from automata.monoids.characters import (
    IsotypicComponent,
    conjugacy_classes,
    irreducible_characters,
    isotypic_components,
)
from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    permutation_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
    transformation_closure,
)
from automata.monoids.monoid import Monoid, direct_product, find_isomorphism

__all__ = [
    "IntArray",
    "IsotypicComponent",
    "Monoid",
    "alternating_group",
    "conjugacy_classes",
    "cyclic_group",
    "dihedral_group",
    "direct_product",
    "find_isomorphism",
    "irreducible_characters",
    "isotypic_components",
    "permutation_group",
    "quaternion_group",
    "reset_monoid",
    "symmetric_group",
    "transformation_closure",
]
