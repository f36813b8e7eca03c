r"""The tokens of a session: its commands as tables of token numbers, and the meaning of what is read.

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
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_type, checked, repeated
from automata.errors import InputError
from automata.monoids.cayley import IntArray, token_array
from automata.phrases import END, PhraseTokenizer
from automata.repl.session_format import SessionFormat
from automata.repl.text import PROMPT, VARIABLES, Command

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


NONE = -1
"""The entry where no action is done, nothing is shown and nothing is to be shown."""

_NO_SESSION = -1  # the node where nothing leads


@dataclass(frozen=True, eq=False)
class Reading:
    """The meaning of sequences of tokens, each array int64."""

    # [batch, length]; at the last newline of an action its number, counted through the actions that are seen
    # and then those that are hidden; else NONE
    actions: IntArray
    # [batch, length]; at a revealed value the number of the variable that holds it; else NONE
    shown: IntArray
    # [batch, length]; where a revealed value comes next the number of its variable; else NONE
    asked: IntArray
    # [batch, length]; the number of variables that the reveal of a value has shown when this was its last
    # value; else 0
    complete: IntArray
    # [batch, variables]; the first value of each variable, from 0; NONE where the sequence ends before
    initial: IntArray


class SessionGrammar:
    """The finite automaton that reads the sessions of a format, from their beginning, cut anywhere.

    The order of actions and reveals is free: their spacing is no part of the grammar. InputError if a command
    of the format begins like another and goes on, so that where it ends cannot be told.
    """

    def __init__(self, form: SessionFormat, tables: TokenTables) -> None:
        self._form = form
        self._names = tables.tokenizer.names
        first, size = tables.tokenizer.first_value, form.variables
        self._values = slice(first, first + size)
        self._next: list[IntArray] = []  # [node]: the node after each token
        self._does: list[IntArray] = []  # [node]: the action that each token completes
        self._shows: list[int] = []  # [node]: the variable of which a revealed value comes next
        self._completes: list[int] = []  # [node]: the number of variables shown, if that value is the last
        node = self._node()
        self._initial_places: list[int] = []
        place = 0
        for template, command in enumerate(tables.commands[: len(form.preamble)], start=1):
            for piece in tables.tokens[template, : tables.lengths[template]].tolist():
                target = self._node()
                if piece < 0:
                    self._initial_places.append(place)
                    known = form.initial == "ordered"
                    values = slice(first - 1 - piece, first - piece) if known else self._values
                    self._next[node][values] = target
                else:
                    self._next[node][piece] = target
                node, place = target, place + 1
            assert not command.is_reveal
        root, ended = node, self._node()
        self._next[ended][0] = ended
        for template in range(tables.first_seen, len(tables.commands) + 1):
            self._add(root, template, tables, ended)
        self._table = np.array(self._next)
        self._action = np.array(self._does)
        self._question = np.array(self._shows)
        self._last = np.array(self._completes)

    def _node(self) -> int:
        self._next.append(np.full(len(self._names), _NO_SESSION))
        self._does.append(np.full(len(self._names), NONE))
        self._shows.append(NONE)
        self._completes.append(0)
        return len(self._next) - 1

    def _add(self, root: int, template: int, tables: TokenTables, ended: int) -> None:
        """Add the path of a command, from the prompt to the newline that ends it."""
        command = tables.commands[template - 1]
        pieces = tables.tokens[template, : tables.lengths[template]].tolist()
        gaps = [place for place, piece in enumerate(pieces) if piece < 0]
        node = root
        for place, piece in enumerate(pieces):
            is_last = place == len(pieces) - 1
            edge = self._values if piece < 0 else slice(piece, piece + 1)
            target = int(self._next[node][edge][0])
            if target == root or (is_last and target != _NO_SESSION):
                raise InputError(
                    f"command {command.lines(range(1, 27))[0]!r} of the format begins like another one that "
                    "ends before it; write one of them otherwise"
                )
            if target == _NO_SESSION:
                target = root if is_last else self._node()
                self._next[node][edge] = target
            if piece < 0:
                self._shows[node] = -1 - piece
                self._completes[node] = len(gaps) if place == gaps[-1] else 0
            if is_last:
                self._next[node][0] = ended
                if not command.is_reveal:
                    self._does[node][piece] = template - tables.first_seen
            node = target

    def read(self, tokens: ArrayLike) -> Reading:
        """Return what tokens ``[batch, length]`` say; InputError where one cannot stand where it does."""
        given = token_array(tokens, len(self._names))
        before, after = np.empty_like(given), np.empty_like(given)
        node = np.zeros(len(given), dtype=np.int64)
        for position, token in enumerate(given.T):
            before[:, position] = node
            node = self._table[node, token]
            after[:, position] = node
            if node.min() < 0:
                raise self._misplaced(given, int(node.argmin()), position)
        is_value = (given >= self._values.start) & (given < self._values.stop)
        initial = self._initial(given)
        return Reading(
            actions=self._action[before, given],
            shown=np.where(is_value, self._question[before], NONE),
            asked=self._question[after],
            complete=np.where(is_value, self._last[before], 0),
            initial=initial,
        )

    def _initial(self, given: IntArray) -> IntArray:
        initial = np.full((len(given), self._form.variables), NONE)
        for variable, place in enumerate(self._initial_places):
            if place < given.shape[1]:
                initial[:, variable] = given[:, place] - self._values.start
                if self._form.initial == "shuffled":
                    again = (initial[:, :variable] == initial[:, variable, None]).any(axis=1)
                    if again.any():
                        raise self._misplaced(given, int(again.argmax()), place)
        return initial

    def _misplaced(self, given: IntArray, sequence: int, position: int) -> InputError:
        token = self._names[given[sequence, position]]
        return InputError(
            f"token {token!r} at position {position} of sequence {sequence} cannot stand there in a session "
            f"of this format; give sessions from their beginning, filled up with {END!r}"
        )
