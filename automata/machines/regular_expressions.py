"""Regular expressions in Python's own syntax, over single letters, as minimal automata.

Python's parser (``re._parser``, the one behind ``re.compile``) reads the expression, so that syntax and
meaning are those of ``re.fullmatch``; Thompson's construction (1968) and sets of its states make the
automaton.

The parser is not a public module of Python, and is imported here only. It has kept its form since Python 1.5
(as ``sre_parse`` until 3.11), and the tests compare every kind of node with ``re.fullmatch``.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Literal

import numpy as np

from automata.checks import check_type, shown
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import minimise

_LARGEST_RANGE = 1_000  # letters of [x-y] that are taken into the alphabet without having been given
_LONGEST = 200_000  # letters of an expression; each position takes some
_MOST_LETTERS = 10_000  # of the alphabet
_MOST_POSITIONS = 20_000  # states before subsets are formed; {m,n} writes its body out n times
_MOST_NODES = 1_000_000  # parts that are written out, with those that need no position, such as ()
_MOST_STATES = 20_000  # subsets; 20,000 with two letters take about a second
_MOST_ENTRIES = 4_000_000  # subsets times letters
_MOST_WORK = 3 * 10**9  # words of 64 positions that are joined to subsets; about ten seconds

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
    whole words as the greedy one. InputError if the expression is malformed, is not regular (a backreference,
    a lookaround, a word boundary, an atomic group, a possessive repetition), has a flag, names a letter
    outside the alphabet, has a class without a letter in the alphabet, or makes too large an automaton.

    Args:
        expression: such as ``"(ab|ba)*"``.
        alphabet: the letters of the automaton; if left out, those that the expression names (alone, in a
            class or in a range), sorted.

    Example:
        >>> pairs = regular_expression_dfa("(ab|ba)*")
        >>> pairs.alphabet, pairs.accepts("abba"), pairs.accepts("aabb")
        (('a', 'b'), True, False)
    """
    try:
        nodes = _parse(expression)
        letters = _alphabet(expression, nodes, alphabet)
        positions = _Positions(expression, letters)
        final = positions.add(nodes, positions.new())
    except RecursionError:
        raise InputError(f"expression {shown(expression)} is nested too deeply; nest it less") from None
    return minimise(_subsets(positions, final))


def _parse(expression: str) -> Nodes:
    check_type("expression", expression, str, "give a text, such as '(ab|ba)*'")
    if len(expression) > _LONGEST:
        raise InputError(f"expression has {len(expression)} letters; give at most {_LONGEST}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # '[[a]' may get another meaning one day
            parsed = _parser.parse(expression)
    except (re.error, OverflowError) as error:
        why = str(error).replace("missing ), unterminated subpattern", "unclosed bracket")
        raise InputError(f"expression {shown(expression)} is malformed ({why}); correct it there") from error
    if parsed.state.flags & ~re.UNICODE:
        raise _refusal(expression, "a flag such as (?i)", "not supported")
    return list(parsed)


def _refusal(expression: str, what: str, why: str = "not regular") -> InputError:
    return InputError(f"expression {shown(expression)} has {what}, which is {why}; leave it out")


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
    ends = False  # whether it has $
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
                            f"expression {shown(expression)} has a range of {item[1] - item[0] + 1} letters; "
                            "give the alphabet"
                        )
                    ranged.update(map(chr, range(item[0], item[1] + 1)))
        ends = ends or kind == "AT_END"
    letters = tuple(sorted(named | ranged) if given is None else given)
    if ends and "\n" in letters:
        raise InputError(
            f"expression {shown(expression)} has $, which also stands before a last newline, and the "
            r"alphabet has one; write \Z"
        )
    if given is None and not letters:
        raise InputError(f"expression {shown(expression)} names no letter; give the alphabet")
    if len(letters) > _MOST_LETTERS:
        raise InputError(
            f"the alphabet of expression {shown(expression)} has {len(letters)} letters; give at most "
            f"{_MOST_LETTERS}"
        )
    for letter in letters:
        if len(letter) != 1:
            raise InputError(f"alphabet holds {letter!r}; give single letters")
    for letter in sorted(named - set(letters)):
        raise InputError(
            f"expression {shown(expression)} uses {letter!r}, which is not in the alphabet; add it"
        )
    return letters


class _Positions:
    """The states before subsets are formed, with steps that read a letter and free ones."""

    def __init__(self, expression: str, letters: tuple[str, ...]) -> None:
        self.expression = expression
        self.letters = letters
        self.reads: list[tuple[int, frozenset[int], int]] = []  # from where, which letters, to where
        self.nodes = self.entries = 0  # what was written out, and how many letters were compared
        self.numbers = {ord(letter): number for number, letter in enumerate(letters)}
        self.classes: dict[tuple[str, int], frozenset[int]] = {}  # of a node, which lives as long
        self.free: list[list[tuple[Literal["start", "end"] | None, int]]] = []

    def new(self) -> int:
        if len(self.free) == _MOST_POSITIONS or self.nodes > _MOST_NODES:
            raise InputError(
                f"expression {shown(self.expression)} has more than {_MOST_POSITIONS} positions once its "
                "repetitions are written out; repeat less"
            )
        self.free.append([])
        return len(self.free) - 1

    def add(self, nodes: Nodes, start: int) -> int:
        """Add what leads from ``start`` through the nodes one after the other; return where it ends.

        Nothing leads back to ``start``, so that it may have other ways out.
        """
        self.nodes += len(nodes)
        for code, value in nodes:
            kind = str(code)
            if kind == "SUBPATTERN":
                start = self.add(value[3], start)
            elif kind == "BRANCH":
                start = self._join([self.add(alternative, start) for alternative in value[1]])
            elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
                start = self._add_repetition(value[0], value[1], value[2], start)
            else:
                end = self.new()
                if kind == "AT":
                    self.free[start].append((_ANCHORS[str(value)], end))
                else:
                    self.reads.append((start, self._class_of(kind, value), end))
                start = end
        return start

    def _add_repetition(self, least: int, most: int, body: Nodes, start: int) -> int:
        for _ in range(least):
            before, start = start, self.add(body, start)
            if start == before:  # () as often as one likes is ()
                break
        if most is _constants.MAXREPEAT:
            again = self._join([start])
            self.free[self.add(body, again)].append((None, again))
            return self._join([again])
        ends = [start]
        for _ in range(most - least):
            start = self.add(body, start)
            if start == ends[-1]:
                break
            ends.append(start)
        return self._join(ends)

    def _join(self, ends: Sequence[int]) -> int:
        """Return a new position to which all of these lead."""
        self.nodes += len(ends)
        end = self.new()
        for position in ends:
            self.free[position].append((None, end))
        return end

    def _class_of(self, kind: str, value: Any) -> frozenset[int]:
        """Return the numbers of the letters that a node stands for; a node that is repeated is read once."""
        node = kind, id(value)
        if node not in self.classes:
            chosen = {self.numbers[code] for code in self._codes(kind, value)}
            if not chosen:
                raise InputError(
                    f"expression {shown(self.expression)} has a class without a letter of the alphabet "
                    f"{shown(''.join(self.letters))}; give an alphabet with one"
                )
            self.classes[node] = frozenset(chosen)
        return self.classes[node]

    def _codes(self, kind: str, value: Any) -> set[int]:
        known = self.numbers.keys()
        if kind == "LITERAL":
            return known & {value}
        if kind == "RANGE" and value[1] - value[0] < len(known):
            return known & set(range(value[0], value[1] + 1))
        if kind == "IN":
            is_negated = str(value[0][0]) == "NEGATE"
            found = set().union(*(self._codes(str(code), item) for code, item in value[is_negated:]))
            return known - found if is_negated else found
        self.entries += len(known)
        if self.entries > _MOST_ENTRIES:
            raise _too_large(self.expression)
        match kind:
            case "NOT_LITERAL":
                return known - {value}
            case "ANY":
                return known - {ord("\n")}
            case "RANGE":
                return {code for code in known if value[0] <= code <= value[1]}
            case "CATEGORY":
                pattern = re.compile(_CATEGORIES[str(value)])
                return {code for code in known if pattern.fullmatch(chr(code))}
        raise AssertionError(f"{kind} is no class of letters")

    def closures(self, own: Mapping[int, int], *anchors: str) -> list[int]:
        """Return the bits of every position with those that it reaches where these anchors hold."""
        found = [own.get(position, 0) for position in range(len(self.free))]
        changed = True
        while changed:  # once more for each * inside of another: all other moves lead to later positions
            changed = False
            for position in reversed(range(len(found))):
                bits = found[position]
                for anchor, target in self.free[position]:
                    if anchor is None or anchor in anchors:
                        bits |= found[target]
                changed |= bits != found[position]
                found[position] = bits
        return found


def _subsets(positions: _Positions, final: int) -> DFA:
    """Return the automaton of the sets of positions; the first is apart, since ^ holds only there.

    A set is written as bits: one for each step that may come next, and a last one if it accepts.
    """
    letters = positions.letters
    classes = [sorted(found) for found in {found for _, found, _ in positions.reads}]
    kind_of = {frozenset(members): kind for kind, members in enumerate(classes)}
    steps = sorted((kind_of[found], start, target) for start, found, target in positions.reads)
    kinds = np.array([kind for kind, _, _ in steps], dtype=np.int64)
    own: dict[int, int] = defaultdict(int)
    for bit, (_, start, _) in enumerate(steps):
        own[start] |= 1 << bit
    last = {final: 1 << len(steps)}
    words = len(steps) // 64 + 1
    after, ends = positions.closures(own), positions.closures(last, "end")
    packed = b"".join((after[target] | ends[target]).to_bytes(8 * words, "little") for _, _, target in steps)
    following = np.frombuffer(packed, dtype="<u8").reshape(-1, words)
    first = positions.closures(own, "start")[0] | positions.closures(last, "start", "end")[0]
    sets = [first.to_bytes(8 * words, "little")]
    numbers: dict[bytes, int] = {}
    table: list[list[int]] = []
    accepting: list[int] = []
    work = 0
    for number, current in enumerate(sets):  # grows while it is read
        bits = np.unpackbits(np.frombuffer(current, dtype=np.uint8), bitorder="little")
        if bits[len(steps)]:
            accepting.append(number)
        chosen = np.flatnonzero(bits[: len(steps)])
        present, begins = np.unique(kinds[chosen], return_index=True)
        work += words * (len(chosen) + sum(len(classes[kind]) for kind in present) + len(letters))
        if work > _MOST_WORK:
            raise _too_large(positions.expression)
        reached = np.zeros((len(letters), words), dtype="<u8")
        for kind, part in zip(present.tolist(), np.split(chosen, begins)[1:], strict=True):
            reached[classes[kind]] |= np.bitwise_or.reduce(following[part], axis=0)
        row = []
        for key in map(bytes, reached):
            if key not in numbers:
                if len(sets) == _MOST_STATES or len(sets) * len(letters) > _MOST_ENTRIES:
                    raise _too_large(positions.expression)
                numbers[key] = len(sets)
                sets.append(key)
            row.append(numbers[key])
        table.append(row)
    return DFA.from_table(np.array(table), 0, accepting, alphabet=letters)


def _too_large(expression: str) -> InputError:
    return InputError(
        f"expression {shown(expression)} needs more than {_MOST_STATES} states, or as much work, "
        "before it is minimised; give a simpler one"
    )
