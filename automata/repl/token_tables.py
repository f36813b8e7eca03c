r"""The tokens of a session, and its commands as tables of token numbers, from which batches are written.

A text is the concatenation of its tokens, and token 0 stands for no text.

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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_integer, check_type, checked, repeated
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.phrases import PhraseTokenizer
from automata.repl.commands import PROMPT, VARIABLES, Command
from automata.repl.session_format import SessionFormat

NOTHING = 0
"""The number of the template of no tokens."""
PRINTED_SIGNS = (PROMPT, " = ", "\n", ", ", "print('", "', ", ")", " ")
"""The text between names and values in sessions with partial reveals."""


class ReplTokenizer(PhraseTokenizer):
    r"""The tokens of a session: prompt, variables, numbers, and what stands between them.

    There are 1 to 26 variables, numbers up to their count, and ``signs``, the other tokens. InputError if the
    number is out of its range, or a token is there twice.

    Example:
        >>> tokenizer = ReplTokenizer(3)
        >>> numbers = tokenizer.encode(">>> a, b = b, a\n>>> print('a', a)\na 2")
        >>> [tokenizer.names[number] for number in numbers[:9]]
        ['>>> ', 'a', ', ', 'b', ' = ', 'b', ', ', 'a', '\n']
        >>> tokenizer.decode([*numbers, 0])
        ">>> a, b = b, a\n>>> print('a', a)\na 2"
    """

    def __init__(self, variables: int, signs: Sequence[str] = PRINTED_SIGNS) -> None:
        check_integer("variables", variables, 1, len(VARIABLES))
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


@dataclass(frozen=True, eq=False)
class TokenTables:
    """The templates of a format, numbered: nothing, preamble, actions seen, actions hidden, reveals."""

    tokenizer: ReplTokenizer  # of the format
    commands: tuple[Command, ...]  # the command of every template but the first
    # int64 [templates, width]; the number of a token, or -1 - i where the value of variable i (from 0) stands
    tokens: IntArray
    # uint8 [templates, width]; 2 at revealed values, 1 at other output of reveals, else 0
    shares: NDArray[np.uint8]
    lengths: IntArray  # int64 [templates]
    first_seen: int  # the template of the first action that is seen
    first_hidden: int  # the same of those that are hidden
    first_reveal: int  # the same of the reveals


@checked
def token_tables(form: SessionFormat) -> TokenTables:
    """Return the tables of a format; the tokens are those that its commands need, in order of appearance."""
    groups = form.preamble, form.seen_actions, form.hidden_actions, form.reveals
    commands = tuple(command for group in groups for command in group)
    pieces = dict.fromkeys(piece for command in commands for piece in command.pieces)
    signs = [p for p in pieces if isinstance(p, str) and p not in VARIABLES[: form.variables]]
    tokenizer = ReplTokenizer(form.variables, signs)
    width = max(len(command.pieces) for command in commands)
    tokens = np.zeros((len(commands) + 1, width), dtype=np.int64)
    shares = np.zeros(tokens.shape, dtype=np.uint8)
    for number, command in enumerate(commands, start=1):
        row = [tokenizer.numbers[p] if isinstance(p, str) else -1 - p for p in command.pieces]
        tokens[number, : len(row)] = row
        shares[number, : len(row)] = command.shares
    lengths = np.array([0, *(len(command.pieces) for command in commands)])
    sizes = np.cumsum([len(group) for group in groups]) + 1
    first_seen, first_hidden, first_reveal = (int(size) for size in sizes[:3])
    return TokenTables(tokenizer, commands, tokens, shares, lengths, first_seen, first_hidden, first_reveal)
