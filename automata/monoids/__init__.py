"""Monoids and groups as exact multiplication tables."""

from automata.monoids.cayley import IntArray as IntArray
from automata.monoids.characters import (
    IsotypicComponent as IsotypicComponent,
    conjugacy_classes as conjugacy_classes,
    irreducible_characters as irreducible_characters,
    isotypic_components as isotypic_components,
)
from automata.monoids.groups import (
    alternating_group as alternating_group,
    cyclic_group as cyclic_group,
    dihedral_group as dihedral_group,
    permutation_group as permutation_group,
    quaternion_group as quaternion_group,
    reset_monoid as reset_monoid,
    symmetric_group as symmetric_group,
    transformation_closure as transformation_closure,
)
from automata.monoids.monoid import (
    Monoid as Monoid,
    direct_product as direct_product,
    find_isomorphism as find_isomorphism,
)
