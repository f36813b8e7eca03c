"""Irreducible characters of a finite group, and what they split a set that the group acts on into.

Numbers are complex and exact to about 1e-12; dimensions and orthogonality are checked before anything is
returned.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.monoids.groups import transformation_closure
from automata.monoids.monoid import Monoid

ACCURACY = 1e-7
"""Tolerance of dimensions against whole numbers, and of products of characters; errors are about 1e-12."""
LARGEST_ORDER = 1000
"""The largest order of a group whose characters are computed, by default."""


def conjugacy_classes(group: Monoid) -> IntArray:
    """Return the number of its class for every element; classes are numbered by their smallest element.

    InputError for a monoid that is no group.

    Example:
        >>> from automata.monoids.groups import symmetric_group
        >>> symmetric_group(3).element_names
        ('123', '132', '213', '231', '312', '321')
        >>> conjugacy_classes(symmetric_group(3)).tolist()
        [0, 1, 1, 2, 2, 1]
    """
    if not group.is_group:
        raise InputError(f"{group.name} is no group; give one")
    conjugates = group.table[group.table, group.inverses[:, None]]  # g x g⁻¹ at [g, x]
    _, numbers = np.unique(conjugates.min(axis=0), return_inverse=True)
    return np.asarray(numbers, dtype=np.int64).reshape(-1)


def irreducible_characters(group: Monoid) -> NDArray[np.complex128]:
    """Return the value of every irreducible character at every element, ``[characters, elements]``.

    Convolution with a random function that is constant on classes has the irreducible characters as its
    eigenvectors (Dixon 1967). They come by dimension, then by their values, class after class from the
    smallest on, the largest first; so the trivial one is the first. InputError for a monoid that is no
    group.

    Example:
        The trivial one, the sign, and the two-dimensional one of S3:

        >>> from automata.monoids.groups import symmetric_group
        >>> irreducible_characters(symmetric_group(3)).real.round(9).astype(int).tolist()
        [[1, 1, 1, 1, 1, 1], [1, -1, -1, 1, 1, -1], [2, 0, 0, -1, -1, 0]]
    """
    classes = conjugacy_classes(group)
    sizes = np.bincount(classes)
    firsts = np.array([np.flatnonzero(classes == number)[0] for number in range(len(sizes))])
    quotients = classes[group.table[group.inverses[:, None], firsts]]  # the class of x⁻¹ z at [x, z]
    rng = np.random.default_rng(0)
    for _ in range(10):
        weights = rng.standard_normal(len(sizes))
        # (w ∗ f)(z) = Σ_x w(x) f(x⁻¹ z) on functions of classes
        matrix = np.zeros((len(sizes), len(sizes)))
        for row in range(len(sizes)):
            np.add.at(matrix[row], quotients[:, row], weights[classes])
        _, vectors = np.linalg.eig(matrix.astype(np.complex128))
        found = vectors / vectors[classes[group.identity]]
        found *= np.sqrt(group.order / (sizes @ np.abs(found) ** 2))
        if _are_characters(found, sizes, classes[group.identity]):
            return _in_order(found.T, sizes)[:, classes]
    raise InputError(f"the characters of {group.name} are not to be told apart in floating point")


@dataclass(frozen=True, eq=False)
class IsotypicComponent:
    """The part of one irreducible representation, or of a pair of complex conjugate ones.

    Attributes:
        name: the dimension, with a prime for every one of the same dimension before it; both of a pair.
        dimension: of the representation.
        projection: onto the functions on the points that belong to it, real and symmetric,
            ``[points, points]``; its trace is the dimension times the multiplicity.

    Example:
        >>> isotypic_components([[1, 2, 0]])[1].name
        '1′+1′′'
    """

    name: str
    dimension: int
    projection: NDArray[np.float64]

    @property
    def size(self) -> int:
        """The dimension of the component: that of the representation times its multiplicity."""
        return round(float(self.projection.trace()))


def isotypic_components(
    permutations: ArrayLike, largest_order: int = LARGEST_ORDER
) -> tuple[IsotypicComponent, ...]:
    """Split the functions on points by the representations of the group that permutations of them generate.

    InputError for a map that is no permutation, or too large a group.

    Args:
        permutations: generators, ``[k, points]``: row a moves point i to ``permutations[a][i]``.
        largest_order: of the group.

    Returns:
        The components that are not zero, in the order of `irreducible_characters`; they are orthogonal and
        add up to the identity. Both of a pair of complex conjugate representations are one component.

    Example:
        S3 on three points: the constant functions, and those of sum 0.

        >>> [(part.name, part.size) for part in isotypic_components([[1, 2, 0], [1, 0, 2]])]
        [('1', 1), ('2', 2)]
    """
    generators = np.asarray(permutations)
    if not (generators.ndim == 2 and (np.sort(generators, axis=1) == np.arange(generators.shape[1])).all()):
        raise InputError("permutations holds a map that sends two points to one; give permutations")
    elements, table, _ = transformation_closure(generators, "reading", largest_order)
    group = Monoid(table, name="the group of the permutations")
    characters = irreducible_characters(group)
    dimensions = [round(character[group.identity].real) for character in characters]
    names = _names(dimensions)
    points = np.arange(elements.shape[1])
    found = []
    for number, character in enumerate(characters):
        conjugate = int(np.abs(characters - character.conj()).sum(axis=1).argmin())
        if conjugate < number:
            continue  # it is in the component of that one
        both = sorted({number, conjugate})
        projection = np.zeros((len(points), len(points)))
        for element, value in zip(elements, character.real, strict=True):
            projection[points, element] += len(both) * dimensions[number] / group.order * value
        projection = (projection + projection.T) / 2  # symmetric already, but for rounding
        if projection.trace() > 0.5:  # a whole number, but for rounding
            name = "+".join(names[each] for each in both)
            found.append(IsotypicComponent(name, dimensions[number], projection))
    return tuple(found)


def _names(dimensions: list[int]) -> list[str]:
    """The dimensions, with primes, or a number where there would be many, to tell equal ones apart."""
    before = [dimensions[:place].count(dimension) for place, dimension in enumerate(dimensions)]
    return [
        f"{dimension}{'′' * count if count < 4 else f'({count})'}"
        for dimension, count in zip(dimensions, before, strict=True)
    ]


def _are_characters(found: NDArray[np.complex128], sizes: IntArray, identity: int) -> bool:
    """Say whether columns are orthonormal functions of classes, with dimensions at the identity."""
    dimensions = found[identity]
    products = (found.conj().T * sizes) @ found / sizes.sum()
    return bool(
        np.abs(products - np.eye(len(sizes))).max() < ACCURACY
        and np.abs(dimensions - dimensions.real.round()).max() < ACCURACY
        and round(float((dimensions.real.round() ** 2).sum())) == sizes.sum()
    )


def _in_order(found: NDArray[np.complex128], sizes: IntArray) -> NDArray[np.complex128]:
    """By dimension, then by values from the smallest class on, the largest first."""
    by_size = np.argsort(sizes, kind="stable")

    def key(row: NDArray[np.complex128]) -> list[tuple[float, float]]:
        return [(round(row[0].real), 0), *((-round(v.real, 6), -round(v.imag, 6)) for v in row[by_size])]

    return np.array(sorted(found, key=key))
