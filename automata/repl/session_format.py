"""The format that sessions of one kind share: variables, actions and their form, reveals."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_integer, check_memory, check_number, check_share, check_type, checked, shown
from automata.errors import InputError, unknown_name
from automata.monoids.cayley import IntArray
from automata.monoids.groups import (
    alternating_group,
    one_line_name,
    permutation_group,
    symmetric_group,
    transformation_closure,
)
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.repl.text import (
    ASSIGNMENTS,
    HIDDEN,
    REVEALS,
    VARIABLES,
    Command,
    HiddenAction,
    initial_assignment,
)

Permutation = tuple[int, ...]
"""One-line tuple of 1 … n: σ makes ``state_t[i] = state_{t-1}[σ[i]]``."""

Actions = str | Sequence[str | Sequence[int]]
"""``"swaps"``, the name of a group, or one-line permutations, each a name or a tuple."""


def action_permutations(actions: Actions, variables: int) -> tuple[Permutation, ...]:
    """Return the permutations that a session of this many variables may apply.

    InputError if the number of variables is below 1, the group is unknown or one of another number of points,
    a permutation is not one of 1 … n, or it is named twice.

    Args:
        actions: ``"swaps"`` for all pairs; ``"S5"``, ``"A5"``, ``"Z5"`` or ``"D5"`` for all elements of the
            symmetric, alternating, cyclic (rotations) or dihedral group on five variables, and so for other
            numbers of them; or a list of permutations as ``"54132"`` (with commas from n = 10) or
            ``(5, 4, 1, 3, 2)``.
        variables: n, the number of variables.

    Example:
        >>> action_permutations("swaps", 3)
        ((2, 1, 3), (3, 2, 1), (1, 3, 2))
    """
    points = range(1, check_integer("variables", variables, 1) + 1)
    if actions == "swaps":
        swaps = ({i: j, j: i} for i, j in combinations(points, 2))
        return tuple(tuple(swap.get(point, point) for point in points) for swap in swaps)
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


Initial = Literal["ordered", "shuffled", "repeated"]
"""The first values: 1 … n in order, in random order, or each drawn from 1 … n by itself."""

Spacing = Literal["fixed", "random", "end"]
"""When reveals come: after every k-th action, after each with probability 1/k, or at the end only."""


@checked
@dataclass(frozen=True)
class SessionFormat:
    """The kind of a session; InputError if a number is out of its range or a name is unknown.

    Attributes:
        variables: their number n, 2 to 26.
        actions: as `action_permutations` takes them; each is drawn uniformly.
        assignment: ``"moved"`` or ``"whole"``: which variables an action is written with.
        initial: ``"ordered"``, ``"shuffled"`` or ``"repeated"``, see `Initial`.
        reveal: ``"partial"``, ``"full"`` or ``"assert"``.
        spacing: ``"fixed"``, ``"random"`` or ``"end"``, see `Spacing`. A reveal follows the last action in
            any case.
        reveal_every: k, the number of actions from one reveal to the next, in the mean if ``"random"``; not
            read if ``"end"``.
        reveal_first: whether a reveal follows the first values, before any action.
        hidden: ``"if"`` or ``"choice"`` for actions of which only reveals tell whether they happened; None
            for actions that do.
        probability: that a hidden action happens; 0.5 for ``"choice"``.
        hidden_fraction: the probability that an action is a hidden one, in (0, 1].

    Example:
        >>> form = SessionFormat(3, actions="A3", assignment="whole", reveal="full")
        >>> form.permutations
        ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    """

    variables: int = 3
    actions: Actions = "swaps"
    assignment: str = "moved"
    initial: Initial = "ordered"
    reveal: str = "partial"
    spacing: Spacing = "fixed"
    reveal_every: int = 4
    reveal_first: bool = False
    hidden: str | None = None
    probability: float = 0.5
    hidden_fraction: float = 1.0

    def __post_init__(self) -> None:
        """Check every field."""
        check_integer("variables", self.variables, 2, len(VARIABLES))
        check_integer("reveal_every", self.reveal_every, 1, 2**63 - 1)
        for field, known in (("assignment", ASSIGNMENTS), ("reveal", REVEALS), ("hidden", {None, *HIDDEN})):
            if getattr(self, field) not in tuple(known):
                raise unknown_name(field, str(getattr(self, field)), filter(None, known))
        chance = check_share("probability", self.probability)
        if not 0 < check_number("hidden_fraction", self.hidden_fraction) <= 1:
            raise InputError(f"hidden_fraction is {self.hidden_fraction}; give a number in (0, 1]")
        if self.hidden is None and (chance, self.hidden_fraction) != (0.5, 1):
            field = "probability" if chance != 0.5 else "hidden_fraction"
            raise InputError(
                f"{field} is {getattr(self, field)} but none is hidden; leave it out, or give hidden 'if'"
            )
        numbers = {field: int(getattr(self, field)) for field in ("variables", "reveal_every")}
        shares = {field: float(getattr(self, field)) for field in ("probability", "hidden_fraction")}
        for field, value in {**numbers, **shares}.items():  # NumPy's numbers too are plain ones from here on
            object.__setattr__(self, field, value)
        actions = self.actions
        if not isinstance(actions, str):  # one form of a list, whichever way it was given
            given = action_permutations(actions, self.variables)
            actions = tuple(one_line_name([image - 1 for image in images]) for images in given)
            object.__setattr__(self, "actions", actions)
        assert self.permutations
        assert self.hidden_action is None or self.hidden_action.probability == chance

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> "SessionFormat":
        """Return the format of JSON fields; those left out have their defaults.

        InputError if a field is unknown, or as for the class.
        """
        check_type("fields of repl", given, Mapping, 'give them by name, such as {"variables": 5}')
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise unknown_name("field of repl", str(name), known)
        return cls(**given)

    def to_fields(self) -> dict[str, Any]:
        """Return all fields as JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def variable_names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(VARIABLES[: self.variables])

    @cached_property
    def permutations(self) -> tuple[Permutation, ...]:
        """The actions, one-line tuples of 1 … n."""
        return action_permutations(self.actions, self.variables)

    @cached_property
    def hidden_action(self) -> HiddenAction | None:
        """How actions are hidden; None if they are not."""
        return None if self.hidden is None else HIDDEN[self.hidden](self.probability)

    @cached_property
    def preamble(self) -> tuple[Command, ...]:
        """The commands before the first action but for a reveal: an import if one is needed, first values."""
        imports = () if self.hidden_action is None else (Command((self.hidden_action.preamble,)),)
        return (*imports, *map(initial_assignment, range(self.variables)))

    @cached_property
    def seen_actions(self) -> tuple[Command, ...]:
        """For every permutation the command that applies it for all to see; none if all are hidden."""
        if self.hidden_action is not None and self.hidden_fraction == 1:
            return ()
        return tuple(ASSIGNMENTS[self.assignment]().command(images) for images in self.permutations)

    @cached_property
    def hidden_actions(self) -> tuple[Command, ...]:
        """For every permutation the command that may apply it; none if no action is hidden."""
        hidden = self.hidden_action
        if hidden is None:
            return ()
        assignment = ASSIGNMENTS[self.assignment]()
        return tuple(hidden.command(*assignment.sides(images)) for images in self.permutations)

    @cached_property
    def reveals(self) -> tuple[Command, ...]:
        """The reveals."""
        return REVEALS[self.reveal]().commands(self.variables)


LARGEST_GROUP = 720
"""The greatest number of arrangements: all those of six variables."""


@checked
def arrangements(form: SessionFormat) -> IntArray:
    """Return all that the actions can lead to, int64 ``[arrangements, variables]``, in lexicographic order.

    ``[g, i]`` is the variable, counted from 0, whose first value variable i holds. With ordered first values
    1 … n that is the value itself, less 1. InputError if there are more than ``LARGEST_GROUP``.
    """
    try:
        found, _, _ = transformation_closure(np.array(form.permutations) - 1, "functions", LARGEST_GROUP)
    except InputError:
        raise InputError(
            f"actions of {form.variables} variables lead to more than {LARGEST_GROUP} arrangements, too many "
            "for exact beliefs; give fewer variables, or actions that generate a smaller group"
        ) from None
    return found[np.lexsort(found.T[::-1])]


@lru_cache(maxsize=4)
def session_automaton(form: SessionFormat) -> ProbabilisticAutomaton:
    """Return the probabilistic automaton behind the sessions of a format.

    States are the arrangements, named in one-line form. Actions are the commands, seen ones first: one that
    is seen moves the state, one that is hidden does so with the probability of the format. Reveals are named
    like the variables, and show whose first value each holds, counted from 1: with first values that repeat,
    a session shows less than that. InputError if there are more arrangements than ``LARGEST_GROUP``, or too
    many for the memory.
    """
    held = arrangements(form)
    commands = [*form.seen_actions, *form.hidden_actions]
    check_memory(
        f"the matrices of {len(commands)} actions on {len(held)} arrangements",
        2 * 8 * len(commands) * len(held) ** 2,
        "give fewer actions or variables",
    )
    numbers = {row.tobytes(): number for number, row in enumerate(held)}
    stay = np.eye(len(held))
    moves = []
    for images in np.array(form.permutations) - 1:
        after = [numbers[row.tobytes()] for row in held[:, images]]
        moves.append(stay[:, after])  # column g is the arrangement after g
    matrices: list[NDArray[np.float64]] = [*(moves if form.seen_actions else [])]
    if form.hidden_action is not None:
        chance = form.hidden_action.probability
        matrices += [(1 - chance) * stay + chance * move for move in moves]
    return ProbabilisticAutomaton(
        [one_line_name(row) for row in held],
        stay[numbers[np.arange(form.variables).tobytes()]],
        {command.lines([])[0]: matrix for command, matrix in zip(commands, matrices, strict=True)},
        {name: (held[:, i] + 1).tolist() for i, name in enumerate(form.variable_names)},
    )
