"""REPL traces as data for a language model: the tokens of a session, and the next token as the target."""

import re
from collections.abc import Iterable
from itertools import pairwise
from string import ascii_lowercase
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from automata.errors import InputError, unknown_name
from automata.tasks.interface import Batch, Specification, Task, check_at_least_one, check_batch
from automata.tasks.repl_traces import PROMPT, ReplTrace, repl_trace

Predict = Literal["all", "reveals"]
"""Which next tokens are asked: every one, or the values that the session prints."""

END = "<end>"
"""The name of token 0, which follows the last token of a session and fills the rest of its row."""

_TOKENS_PER_SWAP = 9  # ">>> ", "a", ", ", "b", " = ", "b", ", ", "a", "\n"


class ReplTokenizer:
    r"""The tokens of a session: prompt, variables, numbers, and what stands between them.

    Token 0 is `END`, which stands for no text. A text is the concatenation of its tokens, so that ``decode``
    undoes ``encode``.

    Args:
        variables: the number of variables, 1 to 26; numbers go up to it.

    Raises:
        InputError: the number is out of its range.

    Example:
        >>> tokenizer = ReplTokenizer(3)
        >>> numbers = tokenizer.encode(">>> a, b = b, a\n>>> print('a', a)\na 2")
        >>> [tokenizer.names[number] for number in numbers[:9]]
        ['>>> ', 'a', ', ', 'b', ' = ', 'b', ', ', 'a', '\n']
        >>> tokenizer.decode([*numbers, 0])
        ">>> a, b = b, a\n>>> print('a', a)\na 2"
    """

    def __init__(self, variables: int) -> None:
        if not 1 <= variables <= len(ascii_lowercase):
            raise InputError(f"variables is {variables}; give a number in 1 … 26")
        signs = [PROMPT, "\n", " = ", ", ", " ", "print('", "', ", ")"]
        values = map(str, range(1, variables + 1))
        self.names = (END, *signs, *ascii_lowercase[:variables], *values)
        self._numbers = {name: number for number, name in enumerate(self.names) if number}
        longest_first = sorted(self._numbers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a text; InputError if it is not made of them."""
        tokens = self._pattern.findall(text)
        position = 0
        for token in tokens:
            if not text.startswith(token, position):
                break
            position += len(token)
        if position < len(text):
            raise InputError(
                f"text holds {text[position : position + 10]!r} at position {position}, which is not made of "
                "the tokens of a session; give a session of these variables"
            )
        return [self._numbers[token] for token in tokens]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; `END` gives none."""
        return "".join(self.names[token] for token in tokens if token)


class ReplLanguage(Task):
    """Sessions of random swaps with reveals, cut or padded to the length of the batch.

    The target of a token is the token after it. With ``predict="reveals"`` only the values that are printed
    are asked, at the token before each: what the variable holds is then all that counts. A session that ends
    inside its row has `END` as its last target, asked with ``predict="all"``; the rest is padding.

    Args:
        variables: their number, 2 to 26; they start as 1, 2, 3, ….
        reveal_every: after a swap a variable is printed with probability 1 / reveal_every, so that reveals
            stand at all places.
        swaps: the number of swaps in a session, the last of which is followed by a reveal; None for as many
            as fill the row.
        predict: which next tokens are asked.
        name: a short name.
        description: one sentence; written from the numbers if left out.

    Raises:
        InputError: one of the numbers is out of its range, or ``predict`` is unknown.

    Example:
        >>> task = ReplLanguage(variables=3, reveal_every=1, swaps=1, predict="reveals")
        >>> batch = task.batch(1, 40, np.random.default_rng(1))
        >>> task.tokenizer.decode(batch.tokens[0]).splitlines()[3:]
        ['>>> a, b = b, a', ">>> print('c', c)", 'c 3']
        >>> batch.lengths.tolist(), [task.token_names[token] for token in batch.targets[batch.counted]]
        ([34], ['3'])
    """

    def __init__(
        self,
        variables: int = 3,
        reveal_every: int = 4,
        swaps: int | None = None,
        predict: Predict = "all",
        *,
        name: str = "repl",
        description: str | None = None,
    ) -> None:
        if predict not in get_args(Predict):
            raise unknown_name("predict", str(predict), get_args(Predict))
        if not 2 <= variables <= len(ascii_lowercase):
            raise InputError(f"variables is {variables}; give a number in 2 … 26")
        check_at_least_one(reveal_every=reveal_every, swaps=1 if swaps is None else swaps)
        self.variables = variables
        self.reveal_every = reveal_every
        self.swaps = swaps
        self.predict = predict
        self.tokenizer = ReplTokenizer(variables)
        self.token_names = self.target_names = self.tokenizer.names
        self.name = name
        asked = "every next token" if predict == "all" else "the printed values"
        self.description = description or (
            f"{asked} of Python sessions: {variables} variables are swapped, one is printed "
            f"after one swap in {reveal_every}"
        )

    def __repr__(self) -> str:
        return f"<ReplLanguage {self.name}: {self.variables} variables, {self.vocabulary_size} tokens>"

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw sessions; InputError if ``start`` is given, since they do not go on in the next batch."""
        check_batch(batch_size, length, rng)
        if start is not None:
            self.start()  # raises
        tokens = np.zeros((batch_size, length), dtype=np.int64)
        targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
        lengths = np.empty(batch_size, dtype=np.int64)
        # the swaps alone fill the row, and the last of them, always followed by a reveal, ends beyond it
        swaps = -(-length // _TOKENS_PER_SWAP) if self.swaps is None else self.swaps
        for row in range(batch_size):
            session, is_value = self._tokens(self._trace(swaps, rng))
            following = [*session[1:], 0][:length]
            lengths[row] = count = len(following)
            tokens[row, :count] = session[:count]
            targets[row, :count] = following
            asks = np.append(is_value[1:], False)[:count] if self.predict == "reveals" else True
            weights[row, :count] = asks
        return Batch(tokens, targets, weights, lengths=None if (lengths == length).all() else lengths)

    def _trace(self, swaps: int, rng: np.random.Generator) -> ReplTrace:
        first = rng.integers(0, self.variables, size=swaps)
        second = (first + rng.integers(1, self.variables, size=swaps)) % self.variables
        permutations = np.tile(np.arange(1, self.variables + 1), (swaps, 1))
        steps = np.arange(swaps)
        permutations[steps, first], permutations[steps, second] = second + 1, first + 1
        shown = rng.integers(0, self.variables, size=swaps).tolist()
        is_revealed = rng.random(swaps) * self.reveal_every < 1
        is_revealed[-1] = True
        reveals = [
            ascii_lowercase[variable] if asked else None
            for variable, asked in zip(shown, is_revealed, strict=True)
        ]
        return repl_trace(permutations.tolist(), range(1, self.variables + 1), reveals)

    def _tokens(self, trace: ReplTrace) -> tuple[list[int], list[bool]]:
        """Return the tokens of a session, and for each whether it is a printed value."""
        session: list[int] = []
        is_value: list[bool] = []
        text = trace.text
        # every value is one token: cut the text before and after it, so that its place is known
        cuts = [0, *(place for span in trace.reveal_spans for place in span), len(text)]
        for index, (begin, end) in enumerate(pairwise(cuts)):
            part = self.tokenizer.encode(text[begin:end])
            session += part
            is_value += [index % 2 == 1] * len(part)
        return session, is_value

    def specification(self) -> Specification:
        """Return the name of a registered task, or else the numbers."""
        if self._specification is not None:
            return super().specification()
        return {
            "repl": {
                "variables": self.variables,
                "reveal_every": self.reveal_every,
                "swaps": self.swaps,
                "predict": self.predict,
            },
            "name": self.name,
            "description": self.description,
        }
