"""Random statements of small programs, as words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

VARIABLES = "xyzuvw"
LOOP_VARIABLES = "ijk"
INDENT = "    "
LARGEST_BLOCK = 4  # statements within a loop or a condition

_COMPOUND = 0.3  # share of loops and conditions among statements, where they are allowed
_SHARES = (0.1, 0.2, 0.4)  # cumulated: a number, a copy, a swap; the rest is arithmetic
_REVERSIBLE_SHARES = (0.0, 0.0, 0.4)
_SIGNS = (" + ", " - ", " + ", " - ", " * ")


class Choices:
    """Random choices, one after the other, from numbers that are drawn 1024 at a time, which is fast."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.fraction = self._fractions(rng).__next__
        """Return a number in [0, 1)."""

    @staticmethod
    def _fractions(rng: np.random.Generator) -> Iterator[float]:
        while True:
            yield from rng.random(1024).tolist()

    def below(self, bound: int) -> int:
        """Return a number in 0 … bound − 1, each with probability 1/bound up to about 2^-53."""
        return int(self.fraction() * bound)

    def happens(self, probability: float) -> bool:
        """Return whether something of this probability happens."""
        return self.fraction() < probability

    def one_of(self, words: str | tuple[str, ...]) -> str:
        """Return one of the words or letters."""
        return words[int(self.fraction() * len(words))]


@dataclass(frozen=True)
class Scope:
    """Where a statement stands."""

    changeable: str  # the variables that it may assign
    depth: int = 0  # in how many loops and conditions it stands
    loop_variables: str = ""  # those of the loops around it


@dataclass(frozen=True)
class StatementWriter:
    """Writes statements that are drawn at random."""

    names: str  # the variables of the program
    modulus: int  # of the arithmetic
    iterations: int  # the most iterations of a loop
    depth: int  # how deep loops and conditions are nested at most
    reversible: bool  # whether a statement may only permute the values that the variables can have together
    choices: Choices  # the source of randomness

    def block(self, statements: int, scope: Scope) -> list[str]:
        """Return exactly so many statements, those within others included."""
        words: list[str] = []
        while statements:
            further, count = self.statement(statements, scope)
            words += further
            statements -= count
        return words

    def statement(self, most: int, scope: Scope) -> tuple[list[str], int]:
        """Return one statement, and how many it is with those within it: at most so many."""
        choices = self.choices
        if most == 1 or scope.depth == self.depth or not choices.happens(_COMPOUND):
            return self._simple(scope), 1
        inner = 1 + choices.below(min(most - 1, LARGEST_BLOCK))
        if choices.happens(0.5) or (self.reversible and len(scope.changeable) == 1):
            return self._loop(inner, scope), 1 + inner
        return self._condition(inner, scope), 1 + inner

    def _loop(self, inner: int, scope: Scope) -> list[str]:
        name = LOOP_VARIABLES[len(scope.loop_variables)]
        count = str(1 + self.choices.below(self.iterations))
        within = replace(scope, depth=scope.depth + 1, loop_variables=scope.loop_variables + name)
        header = [*[INDENT] * scope.depth, "for ", name, " in range(", count, "):", "\n"]
        return header + self.block(inner, within)

    def _condition(self, inner: int, scope: Scope) -> list[str]:
        choices, indent = self.choices, [INDENT] * scope.depth
        variable = choices.one_of(self.names)
        sign = choices.one_of((" < ", " == ", " > "))
        # a number that does not decide the comparison whatever the variable holds
        least, bound = int(sign == " < "), self.modulus - (sign == " > ")
        within = replace(scope, depth=scope.depth + 1)
        others = self.names.replace(variable, "")
        if self.reversible:
            others = ""
            within = replace(within, changeable=scope.changeable.replace(variable, ""))
        operand = self._operand(others + scope.loop_variables, least, bound)
        otherwise = choices.below(inner)  # statements after else; 0 for none
        words = [*indent, "if ", variable, sign, operand, ":", "\n", *self.block(inner - otherwise, within)]
        if otherwise:
            words += [*indent, "else:", "\n", *self.block(otherwise, within)]
        return words

    def _simple(self, scope: Scope) -> list[str]:
        choices, indent = self.choices, [INDENT] * scope.depth
        x = choices.one_of(scope.changeable)
        kind = choices.fraction()
        number, copy, swap = _REVERSIBLE_SHARES if self.reversible else _SHARES
        if kind < number:
            return [*indent, x, " = ", str(choices.below(self.modulus)), "\n"]
        if kind < copy:
            return [*indent, x, " = ", choices.one_of(self.names.replace(x, "")), "\n"]
        if kind < swap and len(scope.changeable) > 1:
            y = choices.one_of(scope.changeable.replace(x, ""))
            return [*indent, x, ", ", y, " = ", y, ", ", x, "\n"]
        left, sign = x, choices.one_of(_SIGNS[:4] if self.reversible else _SIGNS)
        if not self.reversible and choices.happens(0.5):
            left = choices.one_of(self.names.replace(x, ""))
        # times 1 changes nothing, unless 1 is the only number there is
        least = 2 if sign == " * " and self.modulus > 2 else 1
        operand = self._operand(self.names.replace(left, "") + scope.loop_variables, least, self.modulus)
        return [*indent, x, " = (", left, sign, operand, f") % {self.modulus}", "\n"]

    def _operand(self, names: str, least: int, bound: int) -> str:
        """Return one of the names, or a number in least … bound − 1."""
        if names and self.choices.happens(0.5):
            return self.choices.one_of(names)
        return str(least + self.choices.below(bound - least))
