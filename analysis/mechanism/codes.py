"""The codes of a model: the mean state of every automaton state, and what of them no change of basis alters.

Everything here is computed from the Gram matrix of the codes, centred. Rotating the states of a model, or
adding coordinates, leaves it as it is. It is the product of two independent halves of the visits, so that
noise in the one is not in the other and adds nothing in the mean. Where the tokens permute the states of the
automaton, their group has representations and orbits of pairs, which say how the codes lie.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.framework.arrays import FloatArray, IntArray
from automata.errors import InputError
from automata.monoids.characters import LARGEST_ORDER, IsotypicComponent, isotypic_components
from automata.monoids.groups import transformation_closure
from automata.tasks.word_problem import WordProblem

ROUNDING = 1e-12  # codes that differ by less than this share of the state's size do not differ


@dataclass(frozen=True, eq=False)
class Codes:
    """The part of the codes that does not depend on the basis.

    Example:
        Three codes at equal distances:

        >>> simplex = Codes(np.eye(3) - 1 / 3, 1.0)
        >>> simplex.dimension, simplex.unevenness, simplex.spectrum.round(9).tolist()
        (2.0..., 0.0, [1.0, 1.0, 0.0])
    """

    # inner products of the centred codes, ``[classes, classes]``, over the mean squared distance of a visit
    # from the mean of all
    gram: FloatArray
    # correlation of the distances between codes of one half of the visits with those of the other; a
    # correlation with another model's can hardly be larger
    reliability: float

    @property
    def between(self) -> float:
        """The share of the variance of the visits that is between classes; 0 if the codes are the same."""
        return max(0.0, float(self.gram.trace() / len(self.gram)))  # of halves, so below 0 by noise

    @property
    def spectrum(self) -> FloatArray:
        """The variance along each principal direction of the codes, the largest first; noise below 0."""
        return np.linalg.eigvalsh(self.gram)[::-1].astype(np.float64)

    @property
    def dimension(self) -> float:
        """Participation ratio (tr G)²/tr G²: as many directions, were they equally long."""
        return _participation(self.gram)

    def directions_for(self, share: float) -> int:
        """Return how many principal directions hold a share of the variance between codes."""
        lengths = np.maximum(self.spectrum, 0)
        return int(np.searchsorted(lengths.cumsum(), share * lengths.sum() * (1 - ROUNDING)) + 1)

    @property
    def distances(self) -> FloatArray:
        """The distances of all pairs of codes, ``[pairs]``."""
        return _distances(self.gram)

    @property
    def unevenness(self) -> float:
        """Standard deviation over mean of the distances; 0 where all are equal, as for one-hot codes."""
        distances = self.distances
        return float(distances.std() / distances.mean()) if distances.mean() > 0 else float("nan")

    def shares(self, projections: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the share of the variance between codes in each component of the functions on classes."""
        whole = self.gram.trace() or np.nan  # all codes may be one
        return {
            name: float((projection * self.gram).sum() / whole) for name, projection in projections.items()
        }

    def dimensions(self, projections: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the participation ratio within each component of the functions on classes.

        A representation of d dimensions that is there once has d, and d² where all its copies are as large.
        """
        return {
            name: _participation(projection @ self.gram @ projection)
            for name, projection in projections.items()
        }

    def explained_by(self, orbits: IntArray) -> float:
        """Return the share of the variance of the squared distances that is between orbits of pairs.

        1 if the group that has these orbits moves the codes without changing a distance; for codes that know
        nothing of it about one over the number of pairs in an orbit. NaN if the distances are all equal.
        """
        upper = np.triu_indices(len(self.gram), 1)
        squared = _squared_distances(self.gram)[upper]
        _, number = np.unique(orbits[upper], return_inverse=True)
        means = np.bincount(number, squared) / np.bincount(number)
        if squared.std() <= ROUNDING * squared.mean():
            return float("nan")
        return float(means[number].var() / squared.var())

    def turned_by(self, following: IntArray) -> float:
        """Return the share of the variance of codes that one orthogonal matrix moves onto others.

        ``following`` is a permutation of the states. The matrix, of Procrustes, is in the principal
        directions that hold 95% of the variance. Codes in as many directions as there are states can
        nearly always be turned so; in few directions that says that a representation moves them.
        """
        lengths, directions = np.linalg.eigh(self.gram)
        least = lengths[::-1][self.directions_for(0.95) - 1]
        kept = lengths >= least * (1 - 1e-6)  # with those that are as long as the last of them
        points = directions[:, kept] * np.sqrt(np.maximum(lengths[kept], 0))
        size = float((points**2).sum())
        # the best orthogonal matrix leaves 2 |X|² − 2 (sum of the singular values of Xᵀ Y)
        overlap = float(np.linalg.svd(points.T @ points[following], compute_uv=False).sum())
        return 2 * overlap / size - 1 if size > 0 else float("nan")

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "share_of_variance_between_classes": self.between,
            "dimension": self.dimension,
            "directions_for_90_percent": self.directions_for(0.9),
            "unevenness_of_distances": self.unevenness,
            "reliability_of_distances": self.reliability,
            "spectrum": self.spectrum,
            "distances": self.distances,
        }


def codes_of(states: FloatArray, label: IntArray, half: IntArray) -> Codes:
    """Return the codes of visits.

    Every class from 0 on has visits in both halves, 0 and 1.
    """
    means = centred_means(states, label, half)
    total = float(((states - states.mean(axis=0)) ** 2).sum() / len(states))
    size = float((states**2).sum() / len(states))
    if total <= ROUNDING**2 * size:
        return Codes(np.zeros((len(means[0]), len(means[0]))), float("nan"))
    product = means[0] @ means[1].T
    own_distances = [_distances(own @ own.T) for own in means]
    return Codes((product + product.T) / 2 / total, correlation(*own_distances))


def centred_means(states: FloatArray, label: IntArray, half: IntArray) -> list[FloatArray]:
    """Return the means of the classes of each half, less the mean of these, ``[classes, entries]``."""
    found = []
    for side in (0, 1):
        own = [states[(label == n) & (half == side)].mean(axis=0) for n in range(int(label.max()) + 1)]
        found.append(np.stack(own) - np.mean(own, axis=0))
    return found


def correlation(one: FloatArray, other: FloatArray) -> float:
    """Return the correlation of two lists of numbers; NaN where one of them does not vary.

    Example:
        >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).__round__(9)
        1.0
        >>> correlation(np.ones(3), np.arange(3.0))
        nan
    """
    if min(one.std(), other.std()) <= ROUNDING * max(np.abs(one).max(), np.abs(other).max()):
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def alignment(one: Codes, other: Codes) -> float:
    """Return the cosine of two centred Gram matrices, which is called linear CKA: 1 if they are proportional.

    Source:
        Kornblith et al. 2019, arXiv 1905.00414.

    Example:
        >>> simplex = Codes(np.eye(3) - 1 / 3, 1.0)
        >>> line = Codes(np.outer([-1, 0, 1], [-1, 0, 1]) / 2, 1.0)
        >>> alignment(line, line), alignment(line, simplex).__round__(6)
        (1.0, 0.707107)
    """
    sizes = np.linalg.norm(one.gram) * np.linalg.norm(other.gram)
    return float((one.gram * other.gram).sum() / sizes) if sizes > 0 else float("nan")


def chance_alignment(one: Codes, other: Codes, seed: int) -> tuple[float, float]:
    """Return mean and 95% quantile of the alignment when the classes of one are renamed at random."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(100):
        order = rng.permutation(len(one.gram))
        found.append(alignment(Codes(one.gram[np.ix_(order, order)], 1.0), other))
    return float(np.mean(found)), float(np.quantile(found, 0.95))


def _participation(gram: FloatArray) -> float:
    squares = float((gram**2).sum())
    return float(gram.trace() ** 2 / squares) if squares > 0 else float("nan")


def _squared_distances(gram: FloatArray) -> FloatArray:
    sizes = gram.diagonal()
    return np.asarray(np.maximum(sizes[:, None] + sizes - 2 * gram, 0))


def _distances(gram: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(_squared_distances(gram)[np.triu_indices(len(gram), 1)]))


@dataclass(frozen=True)
class Likeness:
    """How alike the codes of two runs of one automaton are."""

    distances: float  # correlation of the distances between codes; NaN if those of one are all equal
    alignment: float  # linear CKA of the codes
    # mean of it over random renamings of the automaton states, and its 95% quantile
    by_chance: tuple[float, float]

    def numbers(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "correlation_of_distances": self.distances,
            "alignment": self.alignment,
            "alignment_by_chance": self.by_chance,
        }

    @classmethod
    def of(cls, one: Codes, other: Codes, seed: int) -> "Likeness":
        """Compare the codes of two runs; the seed is that of the renamings."""
        aligned = alignment(one, other)
        return cls(correlation(one.distances, other.distances), aligned, chance_alignment(one, other, seed))


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The action on the states of the group that the tokens generate.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> found = symmetry_of(make_task("S3"))
        >>> [(part.name, part.size) for part in found.components]
        [('1′', 1), ('2', 4)]
    """

    # of the functions on the states that are not constant, by irreducible representation
    components: tuple[IsotypicComponent, ...]
    # the number of its orbit for every pair of states, under reading the same word in both
    by_words: IntArray
    # likewise under the renamings of the states that the automaton does not notice; None if the tokens do not
    # act as a group on itself
    by_renaming: IntArray | None

    def chance(self) -> dict[str, float]:
        """Return the share each component has of codes at equal distances, its part of all directions."""
        total = sum(part.size for part in self.components)
        return {part.name: part.size / total for part in self.components}


def symmetry_of(task: WordProblem, largest_order: int = LARGEST_ORDER) -> Symmetry | None:
    """Return the symmetry of an automaton; None if a token merges states, or the group is too large.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> symmetry_of(make_task("flip-flop")) is None
        True
    """
    table, states = task.table, task.state_count
    if not (np.sort(table, axis=0) == np.arange(states)[:, None]).all() or states < 2:
        return None
    try:
        elements, _, _ = transformation_closure(table.T, "reading", largest_order)
    except InputError:
        return None
    components = isotypic_components(table.T, largest_order)
    renamings = None
    first = elements[:, task.initial_state]
    if len(elements) == states and len(set(first.tolist())) == states:
        # the state q0·g becomes h·g, for every h
        renamings = np.empty((states, states), np.int64)
        renamings[:, first] = elements.T
    return Symmetry(
        tuple(part for part in components if (part.name, part.size) != ("1", 1)),  # that of constants
        _orbits(elements),
        None if renamings is None else _orbits(renamings),
    )


def _orbits(permutations: IntArray) -> IntArray:
    """The smallest pair that each pair is moved to, in either order, as a number, ``[states, states]``."""
    states = permutations.shape[1]
    first, second = permutations[:, :, None], permutations[:, None, :]
    smallest: IntArray = np.minimum(first * states + second, second * states + first).min(axis=0)
    return smallest


@dataclass(frozen=True)
class Geometry:
    """The symmetry of the automaton in the codes."""

    shares: dict[str, float]  # of their variance in every irreducible component; empty without a symmetry
    dimensions: dict[str, float]  # the participation ratio within each of these; likewise
    # the share of the variance of their squared distances that reading the same word in both states does not
    # alter; None without a symmetry, NaN for equal distances
    by_words: float | None
    by_renaming: float | None  # likewise that no renaming alters which the automaton does not notice
    # how well one orthogonal matrix for each token moves the codes, of the token of which that is least true;
    # None without a symmetry
    turned: float | None

    @classmethod
    def of(cls, codes: Codes, symmetry: Symmetry | None, table: IntArray) -> "Geometry":
        """Return that of codes of all automaton states."""
        if symmetry is None:
            return cls({}, {}, None, None, None)
        projections = {part.name: part.projection for part in symmetry.components}
        return cls(
            codes.shares(projections),
            codes.dimensions(projections),
            codes.explained_by(symmetry.by_words),
            None if symmetry.by_renaming is None else codes.explained_by(symmetry.by_renaming),
            min(codes.turned_by(following) for following in table.T),
        )

    def numbers(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "shares_of_components": self.shares,
            "dimensions_in_components": self.dimensions,
            "distances_by_words": self.by_words,
            "distances_by_renaming": self.by_renaming,
            "turned_by_tokens": self.turned,
        }
