"""The symmetry of an automaton whose tokens permute its states: representations, and orbits of pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from automata.monoids.characters import LARGEST_ORDER, IsotypicComponent, isotypic_components
from automata.monoids.transformations import transformation_closure
from automata.tasks.word_problem import WordProblem

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Symmetry:
    """What the group that the tokens generate makes of the states.

    Attributes:
        components: of the functions on the states that are not constant, by irreducible representation.
        by_words: the number of its orbit for every pair of states, under reading the same word in both.
        by_renaming: likewise under the renamings of the states that the automaton does not notice; None if
            the tokens do not act as a group on itself.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> found = symmetry_of(make_task("S3"))
        >>> [(part.name, part.size) for part in found.components]
        [('1′', 1), ('2', 4)]
        >>> len(np.unique(found.by_words)), len(np.unique(found.by_renaming))
        (5, 5)
    """

    components: tuple[IsotypicComponent, ...]
    by_words: IntArray
    by_renaming: IntArray | None

    def chance(self) -> dict[str, float]:
        """Return the share of each component that codes at equal distances have: its part of all directions.

        Example:
            >>> from automata.tasks.registry import make_task
            >>> symmetry_of(make_task("S3")).chance()
            {'1′': 0.2, '2': 0.8}
        """
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
