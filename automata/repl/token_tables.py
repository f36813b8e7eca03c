"""The commands of a format as tables of token numbers, from which whole batches are written at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_type
from automata.monoids.cayley import IntArray
from automata.repl.commands import VARIABLES, Command
from automata.repl.session_format import SessionFormat
from automata.repl.tokenizer import ReplTokenizer

NOTHING = 0
"""The number of the template of no tokens."""


@dataclass(frozen=True, eq=False)
class TokenTables:
    """The templates of a format, numbered: nothing, preamble, actions seen, actions hidden, reveals.

    Example:
        >>> tables = token_tables(SessionFormat(3))
        >>> tables.lengths.tolist()  # nothing, three assignments, three swaps, three reveals
        [0, 5, 5, 5, 9, 9, 9, 11, 11, 11]
        >>> len(tables.tokenizer.names), tables.first_seen, tables.first_hidden, tables.first_reveal
        (15, 4, 7, 7)
    """

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


def token_tables(form: SessionFormat) -> TokenTables:
    """Return the tables of a format; the tokens are those that its commands need, in order of appearance.

    Raises:
        InputError: it is no format.
    """
    check_type("form", form, SessionFormat, "give a SessionFormat")
    groups = form.preamble, form.seen_actions, form.hidden_actions, form.reveals
    commands = tuple(command for group in groups for command in group)
    tokenizer = ReplTokenizer(form.variables, _signs(commands, form.variables))
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


def _signs(commands: Sequence[Command], variables: int) -> list[str]:
    pieces = dict.fromkeys(piece for command in commands for piece in command.pieces)
    return [piece for piece in pieces if isinstance(piece, str) and piece not in VARIABLES[:variables]]
