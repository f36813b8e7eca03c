"""Regular expressions in Python's own syntax, over single letters, as minimal automata.

Python's parser (``re._parser``, the one behind ``re.compile``) reads the expression, so that syntax and
meaning are those of ``re.fullmatch``; Thompson's construction (1968) and sets of its states make the
automaton.

The parser is not a public module of Python, and is imported here only. It has kept its form since Python 1.5
(as ``sre_parse`` until 3.11), and the tests compare every kind of node with ``re.fullmatch``.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Literal

import numpy as np

from automata.checks import check_type
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import minimise

_LARGEST_RANGE = 1_000  # letters of [x-y] that are taken into the alphabet without having been given
_MOST_POSITIONS = 20_000  # states before subsets are formed; {m,n} writes its body out n times
_MOST_STATES = 20_000  # subsets; 20,000 with two letters take about a second

_NOT_REGULAR = {
    "GROUPREF": "a backreference",
    "GROUPREF_EXISTS": "a condition on a group",
    "ASSERT": "a lookaround",
    "ASSERT_NOT": "a lookaround",
    "AT_BOUNDARY": r"the word boundary \b",
    "AT_NON_BOUNDARY": r"\B",
    "ATOMIC_GROUP": "an atomic group (?>…)",
    "POSSESSIVE_REPEAT": "a possessive repetition such as a*+",
}
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_ANCHORS: dict[str, Literal["start", "end"]] = {
    "AT_BEGINNING": "start",
    "AT_BEGINNING_STRING": "start",
    "AT_END": "end",
    "AT_END_STRING": "end",
}
Nodes = Sequence[tuple[Any, Any]]


def regular_expression_dfa(expression: str, alphabet: Sequence[str] | None = None) -> DFA:
    r"""Return the minimal automaton of the words that ``re.fullmatch(expression, word)`` matches.

    The syntax is that of Python's ``re``: ``ab``, ``a|b``, ``(…)``, ``(?:…)``, ``[abc]``, ``[a-z]``,
    ``[^a]``, ``.``, ``?``, ``*``, ``+``, ``{3}``, ``{2,}``, ``{2,4}``, ``\d``, ``\w``, ``\s`` and their
    opposites, escapes, ``^`` and ``$``. Symbols are single letters, a space among them. ``.``, ``[^…]``,
    ``\d`` and the like stand for letters of the alphabet. A lazy repetition such as ``a*?`` matches the same
    whole words as the greedy one.

    Args:
        expression: such as ``"(ab|ba)*"``.
        alphabet: the letters of the automaton; if left out, those that the expression names (alone, in a
            class or in a range), sorted.

    Raises:
        InputError: the expression is malformed, is not regular (a backreference, a lookaround, a word
            boundary, an atomic group, a possessive repetition), has a flag, names a letter outside the
            alphabet, has a class without a letter in the alphabet, or makes too large an automaton.

    Example:
        >>> pairs = regular_expression_dfa("(ab|ba)*")
        >>> pairs.alphabet, pairs.accepts("abba"), pairs.accepts("aabb")
        (('a', 'b'), True, False)
        >>> regular_expression_dfa(r"\d{2,}", alphabet="01x").accepts("0x")
        False
        >>> regular_expression_dfa(r"(a|b)\1")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: expression '(a|b)\\1' has a backreference, which is ...
    """
    nodes = _parse(expression)
    letters = _alphabet(expression, nodes, alphabet)
    positions = _Positions(expression, letters)
    final = positions.add(nodes, positions.new())
    return minimise(_subsets(positions, final))


def _parse(expression: str) -> Nodes:
    check_type("expression", expression, str, "give a text, such as '(ab|ba)*'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # '[[a]' may get another meaning one day
            parsed = _parser.parse(expression)
    except (re.error, OverflowError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"expression {expression!r} is malformed ({reason}); correct it there") from error
    if parsed.state.flags & ~re.UNICODE:
        raise _refusal(expression, "a flag such as (?i)", "not supported")
    return list(parsed)


def _refusal(expression: str, what: str, why: str = "not regular") -> InputError:
    return InputError(f"expression {expression!r} has {what}, which is {why}; leave it out")


def _walk(expression: str, nodes: Nodes) -> Iterator[tuple[str, Any]]:
    """Yield every node that stands for letters or for a place, refusing what is not regular."""
    for code, value in nodes:
        kind = str(code)
        if kind == "AT":
            kind = str(value)
        if kind in _NOT_REGULAR:
            raise _refusal(expression, _NOT_REGULAR[kind])
        if kind == "SUBPATTERN":
            if value[1] or value[2]:
                raise _refusal(expression, "a flag such as (?i:…)", "not supported")
            yield from _walk(expression, value[3])
        elif kind == "BRANCH":
            for alternative in value[1]:
                yield from _walk(expression, alternative)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            yield from _walk(expression, value[2])
        else:
            yield kind, value


def _alphabet(expression: str, nodes: Nodes, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the alphabet, after a check that every letter named is in it."""
    named: set[str] = set()  # letters that have to be there
    ranged: set[str] = set()  # letters that are taken if no alphabet is given
    for kind, value in _walk(expression, nodes):
        if kind == "LITERAL":
            named.add(chr(value))
        elif kind == "NOT_LITERAL":
            ranged.add(chr(value))
        elif kind == "IN":
            is_negated = str(value[0][0]) == "NEGATE"
            for code, item in value:
                if str(code) == "LITERAL":
                    (ranged if is_negated else named).add(chr(item))
                elif str(code) == "RANGE" and given is None:
                    if item[1] - item[0] >= _LARGEST_RANGE:
                        raise InputError(
                            f"expression {expression!r} has a range of {item[1] - item[0] + 1} letters; "
                            "give the alphabet"
                        )
                    ranged.update(map(chr, range(item[0], item[1] + 1)))
        elif kind == "AT_END" and given is not None and "\n" in given:
            raise InputError(
                f"expression {expression!r} has $, which also stands before a last newline, and the alphabet "
                r"has one; write \Z"
            )
    if given is None:
        found = tuple(sorted(named | ranged))
        if not found:
            raise InputError(f"expression {expression!r} names no letter; give the alphabet")
        return found
    letters = tuple(given)
    for letter in letters:
        if len(letter) != 1:
            raise InputError(f"alphabet holds {letter!r}; give single letters")
    for letter in sorted(named - set(letters)):
        raise InputError(f"expression {expression!r} uses {letter!r}, which is not in the alphabet; add it")
    return letters


class _Positions:
    """The states before subsets are formed, with steps that read a letter and free ones."""

    def __init__(self, expression: str, letters: tuple[str, ...]) -> None:
        self.expression = expression
        self.letters = letters
        self.reads: list[list[tuple[frozenset[int], int]]] = []
        self.free: list[list[tuple[Literal["start", "end"] | None, int]]] = []

    def new(self) -> int:
        if len(self.reads) == _MOST_POSITIONS:
            raise InputError(
                f"expression {self.expression!r} has more than {_MOST_POSITIONS} positions once its "
                "repetitions are written out; repeat less"
            )
        self.reads.append([])
        self.free.append([])
        return len(self.reads) - 1

    def add(self, nodes: Nodes, start: int) -> int:
        """Add what leads from ``start`` through the nodes one after the other; return where it ends.

        Nothing leads back to ``start``, so that it may have other ways out.
        """
        for code, value in nodes:
            kind = str(code)
            if kind == "SUBPATTERN":
                start = self.add(value[3], start)
            elif kind == "BRANCH":
                start = self._add_alternatives(value[1], start)
            elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
                start = self._add_repetition(value[0], value[1], value[2], start)
            else:
                end = self.new()
                if kind == "AT":
                    self.free[start].append((_ANCHORS[str(value)], end))
                else:
                    self.reads[start].append((self._class_of(kind, value), end))
                start = end
        return start

    def _add_alternatives(self, alternatives: Sequence[Nodes], start: int) -> int:
        end = self.new()
        for alternative in alternatives:
            self.free[self.add(alternative, start)].append((None, end))
        return end

    def _add_repetition(self, least: int, most: int, body: Nodes, start: int) -> int:
        for _ in range(least):
            start = self.add(body, start)
        end = self.new()
        if most is _constants.MAXREPEAT:
            self.free[start].append((None, end))
            self.free[self.add(body, end)].append((None, end))
            start, end = end, self.new()
        else:
            for _ in range(most - least):
                self.free[start].append((None, end))
                start = self.add(body, start)
        self.free[start].append((None, end))
        return end

    def _class_of(self, kind: str, value: Any) -> frozenset[int]:
        chosen = {number for number, letter in enumerate(self.letters) if _is_in(letter, kind, value)}
        if not chosen:
            raise InputError(
                f"expression {self.expression!r} has a class without a letter of the alphabet "
                f"{''.join(self.letters)!r}; give an alphabet with one"
            )
        return frozenset(chosen)

    def closure(self, start: set[int], anchors: set[str]) -> set[int]:
        """Return what is reached from these without a letter, where these anchors hold."""
        reached, waiting = set(start), list(start)
        while waiting:
            for anchor, target in self.free[waiting.pop()]:
                if target not in reached and (anchor is None or anchor in anchors):
                    reached.add(target)
                    waiting.append(target)
        return reached


def _is_in(letter: str, kind: str, value: Any) -> bool:
    match kind:
        case "LITERAL":
            return ord(letter) == value
        case "NOT_LITERAL":
            return ord(letter) != value
        case "ANY":
            return letter != "\n"
        case "RANGE":
            return bool(value[0] <= ord(letter) <= value[1])
        case "CATEGORY":
            return re.fullmatch(_CATEGORIES[str(value)], letter) is not None
        case "IN":
            is_negated = str(value[0][0]) == "NEGATE"
            return is_negated != any(_is_in(letter, str(code), item) for code, item in value[is_negated:])
    raise AssertionError(f"{kind} is no class of letters")


def _subsets(positions: _Positions, final: int) -> DFA:
    """Return the automaton of the sets of positions; the first is apart, since ^ holds only there."""
    first = frozenset(positions.closure({0}, {"start"}))
    numbers: dict[frozenset[int], int] = {}
    sets = [first]
    table: list[list[int]] = []
    for current in sets:  # grows while it is read
        targets: list[set[int]] = [set() for _ in positions.letters]
        for position in current:
            for letters, target in positions.reads[position]:
                for letter in letters:
                    targets[letter].add(target)
        row = []
        for reached in targets:
            key = frozenset(positions.closure(reached, set()))
            if key not in numbers:
                if len(sets) == _MOST_STATES:
                    raise InputError(
                        f"expression {positions.expression!r} needs more than {_MOST_STATES} states before "
                        "it is minimised; give a simpler one"
                    )
                numbers[key] = len(sets)
                sets.append(key)
            row.append(numbers[key])
        table.append(row)
    accepting = [
        number
        for number, current in enumerate(sets)
        if final in positions.closure(set(current), {"end"} if number else {"start", "end"})
    ]
    return DFA.from_table(np.array(table), 0, accepting, alphabet=positions.letters)
