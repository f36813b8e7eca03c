"""Texts made of few phrases: a reversible tokenizer whose table is written down."""

import re
from collections import Counter
from collections.abc import Iterable

from automata.checks import check_integer, check_type
from automata.errors import InputError

END = "<end>"
"""The name of token 0, which follows the last token of a text and fills the rest of its row."""


class PhraseTokenizer:
    """Tokens that are phrases: ``encode`` cuts a text into them, the longest that fits first.

    Phrases are the texts of tokens 1, 2, …; token 0 is `END`, for no text. A text is the concatenation of its
    tokens, so that ``decode`` undoes ``encode`` on every text that ``encode`` takes. The other way round
    ``encode`` may join what two tokens wrote ("1" and "2" to "12"); the texts of this package set numbers
    apart, so that it does not. InputError if there is no phrase, one is empty or `END`, or two are the same.

    Example:
        >>> tokenizer = PhraseTokenizer(["swap ball ", " and ", "1", "2", "12"])
        >>> numbers = tokenizer.encode("swap ball 12 and 1")
        >>> [tokenizer.names[number] for number in numbers]
        ['swap ball ', '12', ' and ', '1']
        >>> tokenizer.decode([*numbers, 0])
        'swap ball 12 and 1'
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        check_type("phrases", phrases, Iterable, "give texts")
        self.names: tuple[str, ...] = (END, *phrases)
        if len(self.names) == 1:
            raise InputError("phrases is empty; give at least one")
        counts = Counter(self.names)
        for name in self.names[1:]:
            check_type("phrases: one entry", name, str, "give texts")
            if not name or name == END or counts[name] > 1:
                raise InputError(
                    f"phrases holds {name!r}, which is empty, stands twice or is the name of the end; give "
                    "different texts"
                )
        self.numbers: dict[str, int] = {name: number for number, name in enumerate(self.names)}
        longest_first = sorted(self.names[1:], key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __repr__(self) -> str:
        return f"<PhraseTokenizer of {len(self.names)} tokens>"

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a text; InputError if it is not made of them."""
        check_type("text", text, str, f"give {self._remedy}")
        phrases = self._pattern.findall(text)
        position = 0
        for phrase in phrases:  # what stands between two of them was left out
            if not text.startswith(phrase, position):
                break
            position += len(phrase)
        if position < len(text):
            raise InputError(
                f"text holds {text[position : position + 10]!r} at position {position}, which is not made of "
                f"the tokens; give {self._remedy}"
            )
        return [self.numbers[phrase] for phrase in phrases]

    @property
    def _remedy(self) -> str:
        return f"a text of these tokens: {', '.join(map(repr, self.names[1:]))}"

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; `END` gives none. InputError for a number that is no token."""
        check_type("tokens", tokens, Iterable, "give the numbers of tokens")
        numbers = [check_integer("token", token, 0) for token in tokens]
        if max(numbers, default=0) >= len(self.names):
            raise InputError(f"token is {max(numbers)}; give one in 0 … {len(self.names) - 1}")
        return "".join(self.names[number] for number in numbers if number)
