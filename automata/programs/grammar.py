"""Random small programs: a grammar without endless loops, and what its programs print.

A program gives every variable a value, changes them by statements, and prints them all::

    program    = assignment of a number to every variable, statements, print of every variable
    statement  = variable = number
               | variable = variable
               | variable, variable = variable, variable        (a swap)
               | variable = (variable (+|-|*) operand) % modulus
               | for i in range(number): block
               | if variable (<|==|>) operand: block [else: block]
    operand    = number | variable | variable of a loop around it

**Every program ends**, see `automata.programs.running`. With at most K iterations of a loop, loops and
conditions nested at most d deep, v assignments and v prints, s statements execute at most
2v + s·(K + 1)·K^(d−1) lines (2v + s if d = 0): the line of a ``for`` is met once more than its body.

Values stay in 0 … modulus − 1, so that each is one digit.

**Most programs forget.** A number or a copy that is assigned, and a product, lose what a variable held. With
the default numbers, many of the values that programs of 40 statements print no longer depend on those at the
beginning: the last statements are enough for them. A *reversible* program
has none of the three: its arithmetic adds to a variable, or takes from it, something other than itself, and
what a condition looks at is not changed within it. So each statement permutes the values that the variables
can have together: whoever knows the values after it can tell which branch was taken, and take back each step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from automata.checks import check_integer, check_memory, check_type
from automata.phrases import PhraseTokenizer
from automata.programs.running import execute

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

    grammar: "ProgramGrammar"
    choices: Choices

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
        if most == 1 or scope.depth == self.grammar.depth or not choices.happens(_COMPOUND):
            return self._simple(scope), 1
        inner = 1 + choices.below(min(most - 1, LARGEST_BLOCK))
        if choices.happens(0.5) or (self.grammar.reversible and len(scope.changeable) == 1):
            return self._loop(inner, scope), 1 + inner
        return self._condition(inner, scope), 1 + inner

    def _loop(self, inner: int, scope: Scope) -> list[str]:
        name = LOOP_VARIABLES[len(scope.loop_variables)]
        count = str(1 + self.choices.below(self.grammar.iterations))
        within = replace(scope, depth=scope.depth + 1, loop_variables=scope.loop_variables + name)
        header = [*[INDENT] * scope.depth, "for ", name, " in range(", count, "):", "\n"]
        return header + self.block(inner, within)

    def _condition(self, inner: int, scope: Scope) -> list[str]:
        grammar, choices, indent = self.grammar, self.choices, [INDENT] * scope.depth
        variable = choices.one_of(grammar.names)
        sign = choices.one_of((" < ", " == ", " > "))
        # a number that does not decide the comparison whatever the variable holds
        least, bound = int(sign == " < "), grammar.modulus - (sign == " > ")
        within = replace(scope, depth=scope.depth + 1)
        others = grammar.names.replace(variable, "")
        if grammar.reversible:
            others = ""
            within = replace(within, changeable=scope.changeable.replace(variable, ""))
        operand = self._operand(others + scope.loop_variables, least, bound)
        otherwise = choices.below(inner)  # statements after else; 0 for none
        words = [*indent, "if ", variable, sign, operand, ":", "\n", *self.block(inner - otherwise, within)]
        if otherwise:
            words += [*indent, "else:", "\n", *self.block(otherwise, within)]
        return words

    def _simple(self, scope: Scope) -> list[str]:
        grammar, choices, indent = self.grammar, self.choices, [INDENT] * scope.depth
        x = choices.one_of(scope.changeable)
        kind = choices.fraction()
        number, copy, swap = _REVERSIBLE_SHARES if grammar.reversible else _SHARES
        if kind < number:
            return [*indent, x, " = ", str(choices.below(grammar.modulus)), "\n"]
        if kind < copy:
            return [*indent, x, " = ", choices.one_of(grammar.names.replace(x, "")), "\n"]
        if kind < swap and len(scope.changeable) > 1:
            y = choices.one_of(scope.changeable.replace(x, ""))
            return [*indent, x, ", ", y, " = ", y, ", ", x, "\n"]
        left, sign = x, choices.one_of(_SIGNS[:4] if grammar.reversible else _SIGNS)
        if not grammar.reversible and choices.happens(0.5):
            left = choices.one_of(grammar.names.replace(x, ""))
        # times 1 changes nothing, unless 1 is the only number there is
        least = 2 if sign == " * " and grammar.modulus > 2 else 1
        operand = self._operand(
            grammar.names.replace(left, "") + scope.loop_variables, least, grammar.modulus
        )
        return [*indent, x, " = (", left, sign, operand, f") % {grammar.modulus}", "\n"]

    def _operand(self, names: str, least: int, bound: int) -> str:
        """Return one of the names, or a number in least … bound − 1."""
        if names and self.choices.happens(0.5):
            return self.choices.one_of(names)
        return str(least + self.choices.below(bound - least))


OUTPUT = "Final "
"""The beginning of the lines that a program prints."""

TOKENS_OF_LINE = 5  # "Final ", a variable, ": ", a digit, newline
VALUE_AT = 3
"""Where among the tokens of a printed line the value stands."""

_TOKENS_PER_VARIABLE = 4 + 6 + TOKENS_OF_LINE  # its assignment, its print, and the line that it prints
_SHORTEST_LINE = 4  # x = y and its newline
_LONGEST_LINE = 8  # x, y = y, x and its newline; without indentation
_CONDITION = 6 + 2  # if x < y: and else:, with their newlines


@dataclass(frozen=True)
class Program:
    r"""The source of a program, and the text that it prints.

    Example:
        >>> program = Program("print('x', 3)\n", "x 3\n")
        >>> program.text
        "print('x', 3)\nx 3\n"
    """

    source: str
    output: str

    @property
    def text(self) -> str:
        """The program and, after it, what it prints, as they would stand on a screen."""
        return self.source + self.output


@dataclass(frozen=True)
class ProgramGrammar:
    """Which programs are drawn; InputError if a number is out of its range.

    Attributes:
        variables: their number v, 2 to 6: x, y, z, u, v, w.
        modulus: of the arithmetic, 2 to 10: values are digits below it.
        iterations: the most iterations K of a loop, 1 to 9.
        depth: how deep loops and conditions are nested at most, 0 to 3.
        reversible: whether nothing is forgotten (see the top of the module).

    Example:
        >>> grammar = ProgramGrammar(variables=2, modulus=10)
        >>> print(grammar.sample(4, np.random.default_rng(1)).text.rstrip())
        x = 5
        y = 2
        y = x
        x = (x + y) % 10
        x = (y - x) % 10
        x = (y - 7) % 10
        print("Final x:", x)
        print("Final y:", y)
        Final x: 8
        Final y: 5
    """

    variables: int = 3
    modulus: int = 10
    iterations: int = 4
    depth: int = 2
    reversible: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_integer("variables", self.variables, 2, len(VARIABLES))
        check_integer("modulus", self.modulus, 2, 10)
        check_integer("iterations", self.iterations, 1, 9)
        check_integer("depth", self.depth, 0, len(LOOP_VARIABLES))
        check_type("reversible", self.reversible, bool, "give True or False")

    @property
    def names(self) -> str:
        """The letters of the variables."""
        return VARIABLES[: self.variables]

    @cached_property
    def tokenizer(self) -> PhraseTokenizer:
        r"""The tokens: what stands between names and numbers, the names, and the ten digits."""
        signs = ["\n", INDENT, " = ", " = (", ", ", " + ", " - ", " * ", f") % {self.modulus}"]
        signs += ["for ", " in range(", "):", "if ", " < ", " == ", " > ", ":", "else:"]
        signs += [f'print("{OUTPUT}', ':", ', ")", OUTPUT, ": "]
        loop_variables = LOOP_VARIABLES[: self.depth]
        return PhraseTokenizer([*signs, *self.names, *loop_variables, *map(str, range(10))])

    def line_bound(self, statements: int) -> int:
        """Return how many lines a program of so many statements executes at most, see the module."""
        check_integer("statements", statements, 1)
        each = (self.iterations + 1) * self.iterations ** (self.depth - 1) if self.depth else 1
        return 2 * self.variables + statements * each

    def token_bound(self, statements: int) -> int:
        """Return how many tokens a program of so many statements has at most, with what it prints.

        Every statement is counted with the most tokens that one can have, so that most texts are shorter.
        """
        check_integer("statements", statements, 1)
        condition = _CONDITION + 2 * (self.depth - 1)  # indented twice, at most one level less
        each = max(_LONGEST_LINE + self.depth, condition if self.depth else 0)
        return _TOKENS_PER_VARIABLE * self.variables + statements * each

    def sample(self, statements: int, rng: np.random.Generator) -> Program:
        """Draw a program of exactly so many statements, and run it.

        Assignments and prints at its two ends do not count, nor does ``else``; ``for`` and ``if`` count as
        one each beside what stands in them. InputError if ``statements`` is below 1 or too great for the
        memory, or ``rng`` is no generator.
        """
        check_integer("statements", statements, 1)
        check_type("rng", rng, np.random.Generator, "give a generator, such as numpy.random.default_rng(0)")
        return self.run(self.draw(statements, Choices(rng)))

    def run(self, tokens: list[int]) -> Program:
        """Run the program of these tokens, which ``draw`` gave."""
        source = self.tokenizer.decode(tokens)
        return Program(source, "\n".join([*execute(compile(source, "<program>", "exec")), ""]))

    def draw(self, statements: int, choices: Choices) -> list[int]:
        """Draw the tokens of a program of exactly so many statements, without running it."""
        needed = 8 * _SHORTEST_LINE * statements
        check_memory(f"a program of {statements} statements", needed, "give fewer")
        return self._whole(StatementWriter(self, choices).block(statements, Scope(self.names)), choices)

    def draw_within(self, tokens: int, choices: Choices) -> list[int]:
        """Draw the tokens of a program that has at most so many, with what it prints, if a short one has.

        After a simple statement, which is there in any case, others are added until one does not fit: the
        program ends without it.
        """
        room = tokens - _TOKENS_PER_VARIABLE * self.variables
        writer, scope = StatementWriter(self, choices), Scope(self.names)
        body, _ = writer.statement(1, scope)
        while True:
            further, _ = writer.statement(1 + LARGEST_BLOCK, scope)
            if len(body) + len(further) > room:
                return self._whole(body, choices)
            body += further

    def _whole(self, body: list[str], choices: Choices) -> list[int]:
        """Put the assignments before some statements and the prints after them."""
        words: list[str] = []
        for name in self.names:
            words += [name, " = ", str(choices.below(self.modulus)), "\n"]
        words += body
        for name in self.names:
            words += [f'print("{OUTPUT}', name, ':", ', name, ")", "\n"]
        numbers = self.tokenizer.numbers
        return [numbers[word] for word in words]
