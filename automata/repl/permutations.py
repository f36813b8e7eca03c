"""The actions of a session: permutations of its variables, by the name of a group or one by one."""

import re
from collections.abc import Sequence
from itertools import combinations

from automata.checks import check_integer, check_type, shown
from automata.errors import InputError, unknown_name
from automata.monoids.groups import alternating_group, symmetric_group
from automata.monoids.transformations import one_line_name, permutation_group

Permutation = tuple[int, ...]
"""One-line tuple of 1 … n: σ makes ``state_t[i] = state_{t-1}[σ[i]]``."""

Actions = str | Sequence[str | Sequence[int]]
"""``"swaps"``, the name of a group, or one-line permutations, each a name or a tuple."""


def action_permutations(actions: Actions, variables: int) -> tuple[Permutation, ...]:
    """Return the permutations that a session of this many variables may apply.

    Args:
        actions: ``"swaps"`` for all pairs; ``"S5"``, ``"A5"``, ``"Z5"`` or ``"D5"`` for all elements of the
            symmetric, alternating, cyclic (rotations) or dihedral group on five variables, and so for other
            numbers of them; or a list of permutations as ``"54132"`` (with commas from n = 10) or
            ``(5, 4, 1, 3, 2)``.
        variables: n, the number of variables.

    Raises:
        InputError: the number of variables is below 1, the group is unknown or one of another number of
            points, a permutation is not one of 1 … n, or it is named twice.

    Example:
        >>> action_permutations("swaps", 3)
        ((2, 1, 3), (3, 2, 1), (1, 3, 2))
        >>> action_permutations("A3", 3), action_permutations(["213"], 3)
        (((1, 2, 3), (2, 3, 1), (3, 1, 2)), ((2, 1, 3),))
    """
    points = range(1, check_integer("variables", variables, 1) + 1)
    if actions == "swaps":
        return tuple(_swapped(variables, i, j) for i, j in combinations(points, 2))
    if isinstance(actions, str):
        return _group(actions, variables)
    check_type("actions", actions, Sequence, "give 'swaps', a group such as 'S5', or a list of permutations")
    chosen = []
    for action in actions:
        images = _images(action)
        if sorted(images) != list(points):
            raise InputError(
                f"actions holds {shown(action)}; give permutations of 1 … {variables}, such as "
                f"{one_line_name(range(variables))!r}"
            )
        if images in chosen:
            raise InputError(f"actions holds {shown(action)} twice; name each permutation once")
        chosen.append(images)
    if not chosen:
        raise InputError("actions is empty; give at least one permutation")
    return tuple(chosen)


def _group(name: str, variables: int) -> tuple[Permutation, ...]:
    known = [f"{letter}{variables}" for letter in "SAZD"[: 2 if variables < 3 else 4]]
    if name not in known:
        raise unknown_name(f"actions on {variables} variables:", name, ["swaps", *known])
    if name[0] in "SA":
        group = (symmetric_group if name[0] == "S" else alternating_group)(variables)
    else:
        turned, reversed_ = (*range(2, variables + 1), 1), tuple(range(variables, 0, -1))
        group = permutation_group([turned] if name[0] == "Z" else [turned, reversed_], name)
    return tuple(_images(element) for element in group.element_names)


def _images(action: object) -> Permutation:
    if isinstance(action, str):
        parts = action.split(",") if "," in action else list(action)
        return tuple(int(part) if re.fullmatch("[0-9]+", part) else 0 for part in parts)
    check_type("actions: one entry", action, Sequence, "give permutations such as '213' or (2, 1, 3)")
    assert isinstance(action, Sequence)
    return tuple(int(image) if isinstance(image, int) else 0 for image in action)


def _swapped(variables: int, i: int, j: int) -> Permutation:
    images = list(range(1, variables + 1))
    images[i - 1], images[j - 1] = j, i
    return tuple(images)
