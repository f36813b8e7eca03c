"""A session as text: its commands, what they print, and what the variables hold.

The format is that of Siems et al. 2026 (arXiv 2602.14814), as far as it is public: a prompt before every
command, one assignment a line, swaps as tuple assignments, and reveals that print a named variable.

A further way to write an action, to hide whether it happens, or to reveal values is one class, entered in
``ASSIGNMENTS``, ``HIDDEN`` or ``REVEALS``.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_lowercase

import numpy as np

from automata.checks import check_integer, check_share, check_type, shown
from automata.errors import InputError

PROMPT = ">>> "
CONTINUATION = "... "
"""The prompt where a block goes on: a one-line ``if`` ends with an empty such line."""

VARIABLES = ascii_lowercase
"""The names that variables have, in their order."""

Piece = str | int
"""A token, or the number (from 0) of the variable whose value stands there after the command."""


@dataclass(frozen=True)
class Command:
    r"""The input after one prompt and the interpreter's answer, as tokens with gaps for values.

    Attributes:
        typed: the pieces of the line that is typed.
        output: the pieces of the line that is printed; none if empty.
        is_block: whether the interpreter asks for a further line, which is left empty.
        is_reveal: whether the gaps are revealed values.

    Example:
        >>> command = Command(("print(", "a", ")"), (0,), is_reveal=True)
        >>> command.pieces
        ('>>> ', 'print(', 'a', ')', '\n', 0, '\n')
        >>> command.lines([7])
        ('print(a)', '7')
    """

    typed: tuple[Piece, ...]
    output: tuple[Piece, ...] = ()
    is_block: bool = False
    is_reveal: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that the screen shows of it, with the newlines."""
        further = (CONTINUATION, "\n") if self.is_block else ()
        return (PROMPT, *self.typed, "\n", *further, *self.output, *(["\n"] if self.output else []))

    @property
    def shares(self) -> tuple[int, ...]:
        """For every piece 2 if it is a revealed value, 1 if other output of a reveal, else 0."""
        typed = [2 if self.is_reveal and isinstance(piece, int) else 0 for piece in self.typed]
        output = [2 if isinstance(piece, int) else 1 for piece in self.output]
        return (0, *typed, 0, *([0, 0] if self.is_block else []), *output, *([0] if self.output else []))

    def lines(self, values: Sequence[int]) -> tuple[str, str]:
        """Return what is typed (a block with its empty line) and what is printed, for these values."""
        typed, output = (
            "".join(piece if isinstance(piece, str) else str(values[piece]) for piece in pieces)
            for pieces in (self.typed, self.output)
        )
        return typed + "\n" * self.is_block, output


def initial_assignment(variable: int) -> Command:
    """Return the command that gives a variable its first value."""
    return Command((VARIABLES[variable], " = ", variable))


def listed(variables: Iterable[int]) -> tuple[str, ...]:
    """Return the tokens of names with commas between them."""
    return tuple(chain.from_iterable((", ", VARIABLES[variable]) for variable in variables))[1:]


class Assignment(ABC):
    """Which variables stand in the assignment that applies a permutation.

    Example:
        A way of one's own is one class: only every variable after the first that moves.

        >>> class FromTheFirst(Assignment):
        ...     def written(self, permutation):
        ...         return range(MovedVariables().written(permutation)[0], len(permutation))
        >>> FromTheFirst().command((1, 3, 2, 4)).lines([])[0]
        'b, c, d = c, b, d'
    """

    @abstractmethod
    def written(self, permutation: Sequence[int]) -> Sequence[int]:
        """Return the variables, counted from 0, that are written; those left out must not move."""

    def sides(self, permutation: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens left and right of the sign of equality."""
        written = self.written(permutation)
        return listed(written), listed(permutation[variable] - 1 for variable in written)

    def command(self, permutation: Sequence[int]) -> Command:
        """Return the assignment, which everybody sees."""
        left, right = self.sides(permutation)
        return Command((*left, " = ", *right))


class MovedVariables(Assignment):
    """Only those that move; ``a = a`` for the identity."""

    def written(self, permutation: Sequence[int]) -> Sequence[int]:
        """Return those that move, or the first."""
        return [i for i, image in enumerate(permutation) if image != i + 1] or [0]


class AllVariables(Assignment):
    """All of them, be they moved or not."""

    def written(self, permutation: Sequence[int]) -> Sequence[int]:
        """Return all."""
        return range(len(permutation))


ASSIGNMENTS: dict[str, type[Assignment]] = {"moved": MovedVariables, "whole": AllVariables}
"""The ways to write an action, by name."""


class HiddenAction(ABC):
    """An action of which the text does not tell whether it happened.

    Attributes:
        preamble: the line at the beginning of a session that makes it run.
        probability: that the action happens.
    """

    preamble: str
    probability: float

    @abstractmethod
    def command(self, left: tuple[str, ...], right: tuple[str, ...]) -> Command:
        """Return the command that assigns the right side to the left one, or leaves all as it is."""

    @abstractmethod
    def outcomes(self, generator: random.Random, count: int) -> list[bool]:
        """Return whether each of so many actions happens if Python's ``random`` is in this state."""


class HiddenIf(HiddenAction):
    """The action happens if a random number says so; InputError unless the probability is in [0, 1]."""

    preamble = "from random import random"

    def __init__(self, probability: float) -> None:
        self.probability = check_share("probability", probability)

    def command(self, left: tuple[str, ...], right: tuple[str, ...]) -> Command:
        """Return ``if random() < p: …``, a block of one line."""
        return Command((f"if random() < {self.probability!r}: ", *left, " = ", *right), is_block=True)

    def outcomes(self, generator: random.Random, count: int) -> list[bool]:
        """Return the comparisons, one number of the generator each."""
        draw, chance = generator.random, self.probability
        return [draw() < chance for _ in range(count)]


class HiddenChoice(HiddenAction):
    """Python chooses between the values before and after; InputError unless the probability is 0.5."""

    preamble = "import random"

    def __init__(self, probability: float) -> None:
        if probability != 0.5:
            raise InputError(
                f"probability is {probability} but random.choice takes both alike; give 0.5, or hidden 'if'"
            )
        self.probability = 0.5

    def command(self, left: tuple[str, ...], right: tuple[str, ...]) -> Command:
        """Return ``… = random.choice([(…), (…)])``."""
        return Command((*left, " = ", "random.choice([(", *left, "), (", *right, ")])"))

    def outcomes(self, generator: random.Random, count: int) -> list[bool]:
        """Return the choices of the Python that runs; other versions of it may draw others."""
        return [generator.choice((False, True)) for _ in range(count)]


HIDDEN: dict[str, Callable[[float], HiddenAction]] = {"if": HiddenIf, "choice": HiddenChoice}
"""The ways to hide whether an action happens, by name: each is called with the probability."""


class RevealFormat(ABC):
    """The commands that show what variables hold. A further format is one class, entered in ``REVEALS``.

    Example:
        >>> class Bare(RevealFormat):
        ...     def commands(self, variables):
        ...         return tuple(Command((VARIABLES[i],), (i,), is_reveal=True) for i in range(variables))
        >>> Bare().commands(2)[1].lines([4, 5])
        ('b', '5')
    """

    @abstractmethod
    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return the reveals, one of which is drawn uniformly each time."""


class PartialReveal(RevealFormat):
    """One variable is printed, with its name: ``print('a', a)``."""

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return a reveal for each variable."""
        return tuple(
            Command(("print('", name, "', ", name, ")"), (name, " ", number), is_reveal=True)
            for number, name in enumerate(VARIABLES[:variables])
        )


class FullReveal(RevealFormat):
    """All variables are printed: ``print(a, b, c)``."""

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return the one there is."""
        numbers = range(variables)
        printed = [piece for number in numbers for piece in (" ", number)][1:]
        return (Command(("print(", *listed(numbers), ")"), tuple(printed), is_reveal=True),)


class Assertion(RevealFormat):
    """The value of one variable is asserted, and nothing is printed: ``assert a == 2``."""

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return a reveal for each variable."""
        return tuple(
            Command(("assert ", name, " == ", number), is_reveal=True)
            for number, name in enumerate(VARIABLES[:variables])
        )


REVEALS: dict[str, type[RevealFormat]] = {"partial": PartialReveal, "full": FullReveal, "assert": Assertion}
"""The formats of a reveal, by name."""


@dataclass(frozen=True)
class ReplTrace:
    r"""A session: its commands, what each printed, and the values of the variables after each.

    Attributes:
        commands: what was typed after each prompt, without the prompt; a one-line ``if`` ends with ``"\n"``,
            since an empty line ends it.
        outputs: for every command the line that it printed, or "".
        states: for every command the values of all variables after it, in alphabetical order; variables
            that are not yet assigned are left out.
        reveal_spans: where in ``text`` the revealed values stand, as (start, end): what a loss on revealed
            values is put on.
        seed: what Python's ``random`` is seeded with before the session, so that its hidden actions turn out
            as they did; None if there are none. It does not stand in the text.

    Example:
        >>> trace = repl_trace([(2, 1, 3)], values=(1, 2, 3), reveals=["a"])
        >>> trace.text.splitlines()[3:]
        ['>>> a, b = b, a', ">>> print('a', a)", 'a 2']
        >>> [trace.text[start:end] for start, end in trace.reveal_spans]
        ['2']
    """

    commands: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[tuple[int, ...], ...]
    reveal_spans: tuple[tuple[int, int], ...]
    seed: int | None = None

    @property
    def text(self) -> str:
        """The session as it would stand on the screen, lines joined by newlines."""
        return "\n".join(
            PROMPT + command.replace("\n", f"\n{CONTINUATION}") + (f"\n{output}" if output else "")
            for command, output in zip(self.commands, self.outputs, strict=True)
        )

    @property
    def source(self) -> str:
        """The commands as a Python program."""
        return "\n".join(self.commands)


def trace_of_commands(steps: Iterable[tuple[Command, Sequence[int]]], seed: int | None = None) -> ReplTrace:
    """Return the session of commands, each with the values of the variables after it.

    Example:
        >>> trace_of_commands([(initial_assignment(0), (7,))]).text
        '>>> a = 7'
    """
    commands, outputs, states, spans = [], [], [], []
    position = 0
    for command, values in steps:
        typed, output = command.lines(values)
        commands.append(typed)
        outputs.append(output)
        states.append(tuple(int(value) for value in values))
        for piece, share in zip(command.pieces, command.shares, strict=True):
            width = len(piece if isinstance(piece, str) else str(values[piece]))
            if share == 2:
                spans.append((position, position + width))
            position += width
    return ReplTrace(tuple(commands), tuple(outputs), tuple(states), tuple(spans), seed)


def repl_trace(
    permutations: Sequence[Sequence[int]], values: Sequence[int], reveals: Sequence[str | None]
) -> ReplTrace:
    """Return the session that assigns the values and then applies the permutations one by one.

    The permutation σ, a one-line tuple, makes ``state_t[i] = state_{t-1}[σ[i]]``, so that on the values
    1 … n the state is the product in S_n. Only the variables that move are written. InputError if there are
    more than 26 variables or none, a value is no whole number, a permutation is not one of 1 … n, a reveal is
    not a variable, or permutations and reveals differ in number.

    Args:
        permutations: one-line tuples of 1 … n; the identity is written as ``a = a``.
        values: the initial values of the n variables a, b, c, …; they may repeat.
        reveals: for every permutation the variable that is printed after it, or None.

    Example:
        >>> repl_trace([(3, 1, 2)], values=(5, 5, 7), reveals=[None]).commands[-1]
        'a, b, c = c, a, b'
    """
    kinds = Sequence, np.ndarray
    check_type("permutations", permutations, kinds, "give one-line tuples such as [(2, 1)]")
    check_type("values", values, kinds, "give whole numbers such as (1, 2)")
    check_type("reveals", reveals, kinds, "give a variable or None for each permutation")
    size = len(values)
    if not 1 <= size <= len(VARIABLES):
        raise InputError(f"values has {size} entries; give 1 to 26")
    if len(reveals) != len(permutations):
        raise InputError(
            f"reveals has {len(reveals)} entries; give one for each of the {len(permutations)} steps"
        )
    state = [check_integer("values", value) for value in values]
    prints = PartialReveal().commands(size)
    steps = [(initial_assignment(number), tuple(state[: number + 1])) for number in range(size)]
    for permutation, reveal in zip(permutations, reveals, strict=True):
        check_type("permutations: one entry", permutation, kinds, f"give one-line tuples of 1 … {size}")
        images = [check_integer("permutations: one image", image) for image in permutation]
        if sorted(images) != list(range(1, size + 1)):
            raise InputError(f"permutations holds {shown(tuple(images))}; give one-line tuples of 1 … {size}")
        state = [state[image - 1] for image in images]
        steps.append((MovedVariables().command(images), tuple(state)))
        if reveal is not None:
            if not isinstance(reveal, str) or len(reveal) != 1 or reveal not in VARIABLES[:size]:
                known = ", ".join(VARIABLES[:size])
                raise InputError(f"reveals holds {shown(reveal)}; give one of {known} or None")
            steps.append((prints[VARIABLES.index(reveal)], tuple(state)))
    return trace_of_commands(steps)
