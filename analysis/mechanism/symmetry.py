"""The symmetry of an automaton whose tokens permute its states: representations, and orbits of pairs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.framework.arrays import IntArray
from analysis.mechanism.codes import Codes
from automata.errors import InputError
from automata.monoids.characters import LARGEST_ORDER, IsotypicComponent, isotypic_components
from automata.monoids.transformations import transformation_closure
from automata.tasks.word_problem import WordProblem


@dataclass(frozen=True, eq=False)
class Symmetry:
    """What the group that the tokens generate makes of the states.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> found = symmetry_of(make_task("S3"))
        >>> [(part.name, part.size) for part in found.components]
        [('1′', 1), ('2', 4)]
        >>> len(np.unique(found.by_words)), len(np.unique(found.by_renaming))
        (5, 5)
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
        tuple(part for part in components if not _is_constant(part)),
        _orbits(elements),
        None if renamings is None else _orbits(renamings),
    )


def _is_constant(part: IsotypicComponent) -> bool:
    return part.name == "1" and part.size == 1


def _orbits(permutations: IntArray) -> IntArray:
    """The smallest pair that each pair is moved to, in either order, as a number, ``[states, states]``."""
    states = permutations.shape[1]
    first, second = permutations[:, :, None], permutations[:, None, :]
    smallest: IntArray = np.minimum(first * states + second, second * states + first).min(axis=0)
    return smallest


@dataclass(frozen=True)
class Geometry:
    """What the symmetry of the automaton makes of codes."""

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
