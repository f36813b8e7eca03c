"""What sessions of one kind have in common: variables, actions and their form, reveals."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

from automata.checks import check_integer, check_number, check_share, check_type, checked
from automata.errors import InputError, unknown_name
from automata.monoids.transformations import one_line_name
from automata.repl.commands import (
    ASSIGNMENTS,
    HIDDEN,
    REVEALS,
    VARIABLES,
    Command,
    HiddenAction,
    initial_assignment,
)
from automata.repl.permutations import Actions, Permutation, action_permutations

Initial = Literal["ordered", "shuffled", "repeated"]
"""The first values: 1 … n in order, in random order, or each drawn from 1 … n by itself."""

Spacing = Literal["fixed", "random", "end"]
"""When reveals come: after every k-th action, after each with probability 1/k, or at the end only."""


@checked
@dataclass(frozen=True)
class SessionFormat:
    """The kind of a session.

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

    Raises:
        InputError: a number is out of its range or a name is unknown.

    Example:
        >>> form = SessionFormat(3, actions="A3", assignment="whole", reveal="full")
        >>> form.permutations
        ((1, 2, 3), (2, 3, 1), (3, 1, 2))
        >>> SessionFormat(3, reveal="fully")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: reveal 'fully' is unknown; did you mean 'full'? Known: ...
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

        Raises:
            InputError: a field is unknown, or as for the class.
        """
        check_type("fields of repl", given, Mapping, 'give them by name, such as {"variables": 5}')
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise unknown_name("field of repl", str(name), known)
        return cls(**given)

    def to_fields(self) -> dict[str, Any]:
        """Return all fields as JSON.

        Example:
            >>> SessionFormat.from_fields(SessionFormat(2).to_fields()) == SessionFormat(2)
            True
        """
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
