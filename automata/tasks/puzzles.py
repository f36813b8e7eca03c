"""Puzzles as data for a language model: where does a ball end up, and what does a small program print?"""

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import checked
from automata.errors import InputError
from automata.phrases import PhraseTokenizer
from automata.programs.balls import Swapped, ball_tokenizer, check_balls, final_places, sample_swaps
from automata.programs.grammar import TOKENS_OF_LINE, VALUE_AT, Choices, ProgramGrammar
from automata.tasks.interface import Batch, Task, check_at_least_one, last_places

Asked = Literal["all", "values"]
"""Which next tokens are asked: every one, or the answers."""

_TOKENS_PER_SWAP = 5  # "swap ball ", "1", " and ", "3", ", " or ". Where does ball "
_BEFORE_ANSWER = 2  # "5", " end up? "


class _Puzzle(Task):
    """A puzzle in the phrases of a tokenizer, one a row."""

    tokenizer: PhraseTokenizer
    predict: Asked

    def text(self, tokens: Iterable[int]) -> str:
        """Return the text of a row."""
        return self.tokenizer.decode(tokens)

    @property
    def _answers_are_certain(self) -> bool:
        """The answers are; what the next token of a puzzle is, is not."""
        return self.predict == "values"


class SwappingBalls(_Puzzle):
    """Puzzles of swapped balls, one a row: swaps, the question, and the answer.

    `automata.programs.balls` says what the words mean, and which of two readings they have. The
    target of a token is the token after it; with ``predict="values"`` only the answer is asked, after
    " end up? ". A puzzle that ends inside its row has `END` as its last target, asked with ``predict="all"``;
    the rest is padding. Puzzles that are longer than the row are cut, and ask for no answer then. InputError
    if one of the numbers is out of its range, or ``swapped`` or ``predict`` is unknown.

    Args:
        balls: their number, 2 to 99.
        swaps: the number of swaps in a puzzle; None for a number that is drawn for every row, uniformly from
            1 to as many as fit with the question.
        swapped: ``"ball"`` if the numbers of a swap name balls, wherever they lie, and ``"place"`` if they
            name places.
        predict: which next tokens are asked.

    Example:
        >>> task = SwappingBalls(balls=5, swaps=2)
        >>> batch = task.batch(1, 13, np.random.default_rng(4))
        >>> task.text(batch.tokens[0])
        'swap ball 4 and 3, swap ball 5 and 3. Where does ball 5 end up? 4'
        >>> [task.target_names[target] for target in batch.targets[batch.counted]]
        ['4']
    """

    specified_as, specified_by = "balls", ("balls", "swaps", "swapped", "predict")

    @checked
    def __init__(
        self,
        balls: int = 5,
        swaps: int | None = None,
        swapped: Swapped = "ball",
        predict: Asked = "values",
        *,
        name: str = "swap-balls",
        description: str | None = None,
    ) -> None:
        check_balls(balls)
        check_at_least_one(swaps=1 if swaps is None else swaps)
        self.balls = int(balls)
        self.swaps = None if swaps is None else int(swaps)
        self.swapped: Swapped = swapped
        self.predict = predict
        self.tokenizer = ball_tokenizer(balls, swapped)
        self.token_names = self.target_names = self.tokenizer.names
        self.name = name
        count = "some" if swaps is None else str(swaps)
        asked = "every next token of the puzzle" if predict == "all" else "the answer"
        self.description = description or (
            f"where one of {balls} balls ends up after {count} swaps of {swapped}s; {asked}"
        )

    def tokens_of(self, swaps: int) -> int:
        """Return how many tokens a puzzle of so many swaps has, the answer included.

        A row of one token less holds all that is asked with ``predict="values"``.
        """
        return _TOKENS_PER_SWAP * swaps + _BEFORE_ANSWER + 1

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw puzzles; InputError if ``start`` is given, since they do not go on in the next batch."""
        self.check_fresh(batch_size, length, rng, start)
        # of a puzzle that is cut, two swaps more than would fit reach beyond the row and the target after it
        most = min(self._most_swaps(length), _fitting(length) + 2)
        rows = np.arange(batch_size)
        swaps = (
            rng.integers(1, most + 1, size=batch_size) if self.swaps is None else np.full(batch_size, most)
        )
        pairs = sample_swaps(self.balls, (batch_size, most), rng)
        asked = rng.integers(1, self.balls + 1, size=batch_size)
        number = self.tokenizer.numbers
        first = number["1"] - 1
        puzzles = np.zeros((batch_size, max(self.tokens_of(most), length) + 1), dtype=np.int64)
        steps = puzzles[:, : _TOKENS_PER_SWAP * most].reshape(batch_size, most, _TOKENS_PER_SWAP)  # a view
        steps[..., 0], steps[..., 2], steps[..., 4] = (
            number[f"swap {self.swapped} "],
            number[" and "],
            number[", "],
        )
        steps[..., 1], steps[..., 3] = pairs[..., 0] + first, pairs[..., 1] + first
        ends = _TOKENS_PER_SWAP * swaps  # where the number of the ball asked for stands
        answers = ends + _BEFORE_ANSWER
        puzzles[np.arange(puzzles.shape[1]) > answers[:, None]] = 0
        puzzles[rows, ends - 1] = number[". Where does ball "]
        puzzles[rows, ends] = asked + first
        puzzles[rows, ends + 1] = number[" end up? "]
        puzzles[rows, answers] = final_places(pairs, swaps, asked, self.swapped) + first
        lengths = np.minimum(answers + 1, length)
        weights = np.zeros((batch_size, length), np.float32)
        if self.predict == "all":
            weights[np.arange(length) < lengths[:, None]] = 1
        else:
            shown = answers <= length
            weights[rows[shown], answers[shown] - 1] = 1
        return Batch(
            np.ascontiguousarray(puzzles[:, :length]),
            np.ascontiguousarray(puzzles[:, 1 : length + 1]),
            weights,
            lengths=None if (lengths == length).all() else lengths,
        )

    def target_shares(self, length: int, last: int | None = None) -> NDArray[np.float64] | None:
        """Return the share of each answer: the same for all places, since every ball is asked for alike.

        None where every next token is asked, or where no answer stands among the last places.
        """
        answer_at = self.tokens_of(self._most_swaps(length)) - 2  # its token; the latest of all rows
        if self.predict == "all" or not last_places(length, last).start <= answer_at < length:
            return None
        shares = np.zeros(self.output_size)
        shares[-self.balls :] = 1 / self.balls
        return shares

    def _most_swaps(self, length: int) -> int:
        """Return the greatest number of swaps in a row."""
        return max(1, _fitting(length)) if self.swaps is None else self.swaps


def _fitting(length: int) -> int:
    """Return the number of swaps that fit into a row, with the question: the answer is a target only."""
    return (length - _BEFORE_ANSWER) // _TOKENS_PER_SWAP


MOST_STATEMENTS = 10**5
"""The most statements of a program: time and memory to draw one grow with them."""


class SmallPrograms(_Puzzle):
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
        self.grammar = ProgramGrammar(variables, modulus, iterations, depth, reversible)
        check_at_least_one(statements=1 if statements is None else statements)
        if statements is not None and statements > MOST_STATEMENTS:
            raise InputError(f"statements is {statements}; give at most {MOST_STATEMENTS}")
        self.statements = None if statements is None else int(statements)
        self.predict = predict
        self.tokenizer = self.grammar.tokenizer
        self.token_names = self.target_names = self.tokenizer.names
        self.name = name
        count = "some" if statements is None else str(statements)
        asked = "every next token" if predict == "all" else "the printed values"
        self.description = description or (
            f"what {count} statements, with loops and conditions, make of {variables} variables modulo "
            f"{modulus}; {asked}"
        )

    def tokens_of(self, statements: int) -> int:
        """Return how many tokens a text of so many statements has at most."""
        return self.grammar.token_bound(statements)

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

    def _specified(self) -> dict[str, Any]:
        return {"statements": self.statements, **asdict(self.grammar), "predict": self.predict}
