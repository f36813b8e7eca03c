r"""The tokens of a session. A text is the concatenation of its tokens, and token 0 stands for no text.

| token                                         | where it stands                                            |
|-----------------------------------------------|------------------------------------------------------------|
| ``<end>``, always number 0                    | after the last token, and in the rest of the row           |
| ``">>> "``                                    | before every command                                       |
| ``"... "``                                    | before the empty line that ends a one-line ``if``          |
| ``"\n"``                                      | at the end of every line but the last                      |
| ``a`` … ``z``                                 | a variable, or its name in a line that is printed          |
| ``1`` … ``n``                                 | a value                                                    |
| ``" = "``, ``", "``, ``" "``                  | in assignments, in lists of names, between what is printed |
| ``"print('"``, ``"', "``, ``")"``             | in partial reveals: ``print('a', a)``                      |
| ``"print("``, ``")"``                         | in full reveals: ``print(a, b, c)``                        |
| ``"assert "``, ``" == "``                     | in asserted reveals: ``assert a == 2``                     |
| ``"from random import random"``               | at the beginning of sessions with hidden actions           |
| ``"if random() < 0.5: "``                     | before a hidden action; it holds the probability           |
| ``"import random"``                           | at the beginning of sessions with hidden choices           |
| ``"random.choice([("``, ``"), ("``, ``")])"`` | in hidden choices: ``… = random.choice([(a, b), (b, a)])`` |

A task has those tokens only that its format needs.
"""

from collections.abc import Iterable, Sequence

from automata.checks import check_integer, check_type, repeated
from automata.errors import InputError
from automata.phrases import PhraseTokenizer
from automata.repl.commands import PROMPT, VARIABLES

PRINTED_SIGNS = (PROMPT, " = ", "\n", ", ", "print('", "', ", ")", " ")
"""What stands between names and values in sessions with partial reveals."""


class ReplTokenizer(PhraseTokenizer):
    r"""The tokens of a session: prompt, variables, numbers, and what stands between them.

    Args:
        variables: the number of variables, 1 to 26; numbers go up to it.
        signs: the other tokens.

    Raises:
        InputError: the number is out of its range, or a token is there twice.

    Example:
        >>> tokenizer = ReplTokenizer(3)
        >>> numbers = tokenizer.encode(">>> a, b = b, a\n>>> print('a', a)\na 2")
        >>> [tokenizer.names[number] for number in numbers[:9]]
        ['>>> ', 'a', ', ', 'b', ' = ', 'b', ', ', 'a', '\n']
        >>> tokenizer.decode([*numbers, 0])
        ">>> a, b = b, a\n>>> print('a', a)\na 2"
    """

    def __init__(self, variables: int, signs: Sequence[str] = PRINTED_SIGNS) -> None:
        if not 1 <= check_integer("variables", variables) <= len(VARIABLES):
            raise InputError(f"variables is {variables}; give a number in 1 … 26")
        check_type("signs", signs, Iterable, "give texts")
        signs = tuple(signs)
        for sign in signs:
            check_type("signs: one entry", sign, str, "give texts")
        names = (*signs, *VARIABLES[:variables], *map(str, range(1, variables + 1)))
        if len(set(names)) < len(names):
            raise InputError(f"signs makes {repeated(names)!r} a token twice; name each once")
        super().__init__(names)

    @property
    def first_value(self) -> int:
        """The number of the token ``1``; the others follow it."""
        return self.numbers["1"]

    @property
    def _remedy(self) -> str:
        return "a session of these variables"
