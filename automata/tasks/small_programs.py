"""Small programs as data for a language model: what do the variables hold at the end?"""

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, checked
from automata.programs.grammar import TOKENS_OF_LINE, VALUE_AT, Choices, ProgramGrammar
from automata.tasks.interface import Batch, Task, check_at_least_one
from automata.tasks.swapping_balls import Asked


class SmallPrograms(Task):
    """Random programs, one a row, each followed by what Python prints when it runs them.

    Which programs are drawn, and why every one ends, is written in `automata.programs.grammar`. The target of
    a token is the token after it; with ``predict="values"`` only the printed values are asked, one digit for
    each variable, at the token before it. All values but the first follow upon others: they are given, not
    what a model answered. A text that ends inside its row has `END` as its last target, asked with
    ``predict="all"``; the rest is padding. Texts that are longer than the row are cut. InputError if one of
    the numbers is out of its range, or ``predict`` is unknown.

    Args:
        statements: the number of statements in a program, beside the assignments at its beginning and the
            prints at its end; None for as many as fit into a number of tokens that is drawn for every row,
            uniformly from what one statement needs to the length of the row.
        variables, modulus, iterations, depth, reversible: as in `ProgramGrammar`. Without ``reversible`` most
            values that a long program prints depend on its last statements only.
        predict: which next tokens are asked.

    Example:
        >>> task = SmallPrograms(statements=3, variables=2)
        >>> batch = task.batch(1, 80, np.random.default_rng(2))
        >>> print(task.text(batch.tokens[0]))
        x = ...
        print("Final x:", x)
        print("Final y:", y)
        Final x: ...
        Final y: ...
        >>> int(batch.counted.sum())
        2
    """

    specified_as = "program"
    specified_by = ("statements", *(field.name for field in fields(ProgramGrammar)), "predict")

    @checked
    def __init__(
        self,
        statements: int | None = None,
        variables: int = 3,
        modulus: int = 10,
        iterations: int = 4,
        depth: int = 2,
        reversible: bool = False,
        predict: Asked = "values",
        *,
        name: str = "small-programs",
        description: str | None = None,
    ) -> None:
        self.grammar = ProgramGrammar(
            check_integer("variables", variables),
            check_integer("modulus", modulus),
            check_integer("iterations", iterations),
            check_integer("depth", depth),
            reversible,
        )
        check_at_least_one(statements=1 if statements is None else statements)
        self.statements = None if statements is None else int(statements)
        self.predict: Asked = predict
        self.tokenizer = self.grammar.tokenizer
        self.token_names = self.target_names = self.tokenizer.names
        self.name = name
        count = "some" if statements is None else str(statements)
        asked = "every next token" if predict == "all" else "the printed values"
        self.description = description or (
            f"what {count} statements, with loops and conditions, make of {variables} variables modulo "
            f"{modulus}; {asked}"
        )

    def __repr__(self) -> str:
        return (
            f"<SmallPrograms {self.name}: {self.grammar.variables} variables, {self.vocabulary_size} tokens>"
        )

    def tokens_of(self, statements: int) -> int:
        """Return how many tokens a text of so many statements has at most."""
        return self.grammar.token_bound(statements)

    def text(self, tokens: Iterable[int]) -> str:
        """Return the text of a row."""
        return self.tokenizer.decode(tokens)

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw programs and run them; InputError if ``start`` is given, since they do not go on."""
        self.check_fresh(batch_size, length, rng, start)
        tokens = np.zeros((batch_size, length), dtype=np.int64)
        targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
        lengths = np.empty(batch_size, dtype=np.int64)
        least = min(self.tokens_of(1), length)
        rooms = rng.integers(least, length, size=batch_size, endpoint=True).tolist()
        choices = Choices(rng)
        for row in range(batch_size):
            if self.statements is None:
                source = self.grammar.draw_within(rooms[row], choices)
            else:
                source = self.grammar.draw(self.statements, choices)
            output = self.tokenizer.encode(self.grammar.run(source).output)
            session = source + output
            lengths[row] = count = min(len(session), length)
            tokens[row, :count] = session[:count]
            targets[row, :count] = [*session[1:], 0][:count]
            if self.predict == "all":
                weights[row, :count] = 1
            else:
                asked = slice(len(source) + VALUE_AT - 1, length, TOKENS_OF_LINE)
                weights[row, asked][: self.grammar.variables] = 1
        return Batch(tokens, targets, weights, lengths=None if (lengths == length).all() else lengths)

    def target_shares(self, length: int, last: int | None = None) -> NDArray[np.float64] | None:
        """Return the share of each value if programs are reversible: they permute what is drawn uniformly.

        None for other programs, where every next token is asked, if only the last places are counted, and for
        rows that may be too short for the values.
        """
        if not self.grammar.reversible or self.predict == "all" or last is not None:
            return None
        if length < self.tokens_of(self.statements or 1):
            return None
        shares = np.zeros(self.output_size)
        first = self.tokenizer.numbers["0"]
        shares[first : first + self.grammar.modulus] = 1 / self.grammar.modulus
        return shares

    @property
    def _answers_are_certain(self) -> bool:
        """The answers are; what the next token of a puzzle is, is not."""
        return self.predict == "values"

    def _specified(self) -> dict[str, Any]:
        return {"statements": self.statements, **asdict(self.grammar), "predict": self.predict}
