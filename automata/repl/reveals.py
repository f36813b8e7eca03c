"""How a session shows what its variables hold: one class for each format of a reveal."""

from abc import ABC, abstractmethod

from automata.repl.commands import VARIABLES, Command, listed


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
    """One variable is printed, with its name.

    Example:
        >>> PartialReveal().commands(3)[0].lines([2, 1, 3])
        ("print('a', a)", 'a 2')
    """

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return one for each variable."""
        return tuple(
            Command(("print('", name, "', ", name, ")"), (name, " ", number), is_reveal=True)
            for number, name in enumerate(VARIABLES[:variables])
        )


class FullReveal(RevealFormat):
    """All variables are printed.

    Example:
        >>> FullReveal().commands(3)[0].lines([2, 1, 3])
        ('print(a, b, c)', '2 1 3')
    """

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return the one there is."""
        numbers = range(variables)
        printed = [piece for number in numbers for piece in (" ", number)][1:]
        return (Command(("print(", *listed(numbers), ")"), tuple(printed), is_reveal=True),)


class Assertion(RevealFormat):
    """The value of one variable is asserted: it stands in the command, and nothing is printed.

    Example:
        >>> Assertion().commands(3)[0].lines([2, 1, 3])
        ('assert a == 2', '')
    """

    def commands(self, variables: int) -> tuple[Command, ...]:
        """Return one for each variable."""
        return tuple(
            Command(("assert ", name, " == ", number), is_reveal=True)
            for number, name in enumerate(VARIABLES[:variables])
        )


REVEALS: dict[str, type[RevealFormat]] = {"partial": PartialReveal, "full": FullReveal, "assert": Assertion}
"""The formats of a reveal, by name."""
