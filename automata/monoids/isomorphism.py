"""Whether two monoids are the same up to the numbering of their elements, and which numbering that is."""

import numpy as np

from automata.checks import checked
from automata.monoids.cayley import IntArray, idempotent_powers
from automata.monoids.monoid import Monoid


@checked
def find_isomorphism(first: Monoid, second: Monoid) -> IntArray | None:
    """Return a bijection φ with φ(a·b) = φ(a)·φ(b), shape ``[order]``, or None if the monoids differ.

    The images of the generators of ``first`` are tried in turn, among elements with the same powers; each
    choice is followed through the submonoid generated so far and dropped where it contradicts itself. Fast
    for the groups of this package; in the worst case exponential in the number of generators.

    Example:
        The dihedral group of the triangle is S3, and Z4 is not Z2 × Z2:

        >>> from automata.monoids.groups import cyclic_group, dihedral_group, symmetric_group
        >>> from automata.monoids.monoid import direct_product
        >>> triangle = dihedral_group(3)
        >>> phi = find_isomorphism(triangle, symmetric_group(3))
        >>> symmetric_group(3).element_names[phi[triangle.index("r")]]
        '231'
        >>> find_isomorphism(cyclic_group(4), direct_product(cyclic_group(2), cyclic_group(2))) is None
        True
    """
    if first.order != second.order:
        return None
    kinds, other_kinds = _kinds(first), _kinds(second)
    if sorted(kinds) != sorted(other_kinds):
        return None
    candidates = [
        [image for image in range(second.order) if other_kinds[image] == kinds[generator]]
        for generator in first.generators
    ]
    images: list[int] = []

    def search() -> IntArray | None:
        mapping = _extend(first, second, images)
        if mapping is None:
            return None
        if len(images) == len(first.generators):
            return mapping
        for image in candidates[len(images)]:
            images.append(image)
            found = search()
            if found is not None:
                return found
            images.pop()
        return None

    return search()


def _extend(first: Monoid, second: Monoid, images: list[int]) -> IntArray | None:
    """Extend g_i ↦ images[i] to the submonoid of these generators; None unless injective and well defined.

    An injective map with φ(x·g) = φ(x)·φ(g) for all x and all generators g respects all products. Elements
    outside the submonoid are mapped to -1.
    """
    mapping = np.full(first.order, -1)
    mapping[first.identity] = second.identity
    taken = {second.identity}
    queue = [first.identity]
    for element in queue:  # grows while it is read
        for generator, image in zip(first.generators, images, strict=False):
            product = int(first.table[element, generator])
            target = int(second.table[mapping[element], image])
            if mapping[product] == -1:
                if target in taken:
                    return None
                mapping[product] = target
                taken.add(target)
                queue.append(product)
            elif mapping[product] != target:
                return None
    return mapping


def _kinds(monoid: Monoid) -> list[tuple[int, int]]:
    """Return for every element how many powers it has and the size of the cycle they end in."""
    omega = idempotent_powers(monoid.table)
    kinds = []
    for element in range(monoid.order):
        powers = [element]
        while (power := int(monoid.table[powers[-1], element])) not in powers:
            powers.append(power)
        kinds.append((len(powers), len(powers) - powers.index(int(omega[element]))))
    return kinds
