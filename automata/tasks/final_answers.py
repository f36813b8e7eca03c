"""Tasks that ask once, after the last token: is a word in a language, and what is the value of an expression.

Words have every length up to that of the batch for which there are any, so that short and long ones are
asked alike; what follows a shorter word is padding.

Connectivity: is a node of a graph reachable from another, where every node has at most one edge and edges are
sorted? This is complete for logarithmic space. With node i written as i times ``1`` and edges in ascending
order, two counters solve it in one pass: where one is, and what is read.
"""

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_number, checked, shown
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import reachable_states
from automata.machines.language import decided, draw_words, log_counts
from automata.machines.mealy import MealyMachine
from automata.monoids.cayley import IntArray
from automata.tasks.interface import Batch, Task
from automata.tasks.word_problem import follow

MOST_EDITS = 3
"""Letters of a word of the language that are drawn anew to make one that is not."""
_ATTEMPTS = 16
MOST_READ = 10**6
"""States that are read to find at which lengths words are asked: a second."""


class FinalAnswer(Task):
    """A task that asks once, after the last token of a word."""

    _answers_are_certain = True

    @abstractmethod
    def draw(self, count: int, longest: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return words of at most ``longest`` tokens, ``[words, …]``, their lengths and their answers.

        InputError if no word is so short.
        """

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw words; InputError if none is as short, or a start is given."""
        self.check_fresh(batch_size, length, rng, start)
        words, lengths, answers = self.draw(batch_size, length, rng)
        tokens, targets = (np.zeros((batch_size, length), np.int64) for _ in range(2))
        tokens[:, : words.shape[1]] = words
        rows = np.arange(batch_size)
        targets[rows, lengths - 1] = answers
        weights = np.zeros((batch_size, length), np.float32)
        weights[rows, lengths - 1] = 1
        return Batch(tokens, targets, weights, None if (lengths == length).all() else lengths)

    def _one_of(self, possible: IntArray, count: int, longest: int, rng: np.random.Generator) -> IntArray:
        """Return lengths, each as likely; InputError if there are none."""
        if not possible.size:
            raise InputError(
                f"length is {longest}, and {shown(self.name)} has no word so short; give a greater length"
            )
        return rng.choice(possible, count)


class Recognition(FinalAnswer):
    """Is the word in the language of an automaton, that of its accepting states?

    Half of the words are accepted, uniform among those of their length. The others are accepted words with
    one to three letters drawn anew, so that they are close to the language; where that leads to no rejected
    word, uniform ones of the complement. At lengths at which all words or none are accepted, only those are
    drawn that there are; they are left out where other lengths have both. InputError if the language is
    empty, or everything.

    Example:
        >>> from automata.machines.named_dfas import parity_dfa
        >>> even = Recognition(parity_dfa(), name="even")
        >>> batch = even.batch(100, 8, np.random.default_rng(0))
        >>> ones, answers = batch.tokens.sum(axis=1), batch.targets.max(axis=1)
        >>> bool((answers == 1 - ones % 2).all()), batch.counted.sum(axis=1).max().item()
        (True, 1)
    """

    target_names = ("reject", "accept")
    specified_as = "recognition"

    @checked
    def __init__(self, dfa: DFA, *, name: str = "language", description: str | None = None) -> None:
        answers = set(dfa.accepting_mask[reachable_states(dfa.table, dfa.initial_number)].tolist())
        if len(answers) < 2:
            told = "everything" if answers == {True} else "empty"
            raise InputError(f"the language of {shown(name)} is {told}; give one with words in and out of it")
        self.dfa = dfa
        self.token_names = tuple(dfa.alphabet)
        self.name = name
        self.description = description or f"whether a word is accepted by the automaton of {name}"

    @cached_property
    def _complement(self) -> DFA:
        return self.dfa.complement()

    @cached_property
    def _by_token(self) -> IntArray:
        return np.ascontiguousarray(self.dfa.table.T).ravel()

    def lengths(self, longest: int) -> IntArray:
        """Return those at which some words are accepted and some are not; all lengths if there are none."""
        both = 1 + np.flatnonzero(decided(self.dfa, longest)[:, 1:].all(axis=0))
        return both if both.size else np.arange(1, longest + 1)

    def draw(self, count: int, longest: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return words, their lengths, and 1 for those that are accepted."""
        lengths = self._one_of(self.lengths(longest), count, longest, rng)
        rejected, accepted = decided(self.dfa, longest)[:, lengths]
        words = np.zeros((lengths.size, lengths.max()), np.int64)
        rows = np.flatnonzero(accepted)
        if rows.size:
            self._fill(words, rows, draw_words(self.dfa, lengths[rows], rng))
        wrong = np.flatnonzero(rejected & (~accepted | (rng.random(lengths.size) < 0.5)))
        for attempt in range(_ATTEMPTS + 1):
            wrong = wrong[self._accepted(words[wrong], lengths[wrong])]
            if not wrong.size:
                break
            if attempt == _ATTEMPTS:
                self._fill(words, wrong, draw_words(self._complement, lengths[wrong], rng))
            else:
                edits = rng.integers(1, MOST_EDITS + 1, wrong.size)
                for edit in range(MOST_EDITS):
                    edited = wrong[edits > edit]
                    places = rng.integers(0, lengths[edited])
                    words[edited, places] = rng.integers(0, self.vocabulary_size, edited.size)
        return words, lengths, self._accepted(words, lengths).astype(np.int64)

    @staticmethod
    def _fill(words: IntArray, rows: IntArray, found: IntArray) -> None:
        words[rows] = 0
        words[rows, : found.shape[1]] = found

    def _accepted(self, words: IntArray, lengths: IntArray) -> NDArray[np.bool_]:
        if not lengths.size:
            return np.zeros(0, np.bool_)
        before = np.full(lengths.size, self.dfa.initial_number)
        states = follow(self._by_token, len(self.dfa.states), words, before)
        return self.dfa.accepting_mask[states[np.arange(lengths.size), lengths - 1]]

    def machine(self) -> MealyMachine:
        """Return the machine that says after every token whether the word so far is accepted."""
        accepts = self.dfa.accepting_mask.astype(np.int64)
        return MealyMachine(self.dfa.table, accepts[self.dfa.table], self.dfa.initial_number)

    def first_asked(self) -> int | None:
        """Return the least length from which on words of every length are asked; None if there is none."""
        reached, seen, read = frozenset([self.dfa.initial_number]), dict[frozenset[int], bool](), 0
        while reached not in seen:  # the states after all words of a length go round in the end
            read += len(reached)
            if read > MOST_READ:
                raise InputError(
                    f"task {shown(self.name)}: the states after words of a length have not come round within "
                    f"{len(seen):,} lengths; give an automaton whose cycles have a small common multiple"
                )
            seen[reached] = len({*self.dfa.accepting_mask[list(reached)].tolist()}) == 2
            reached = frozenset(self.dfa.table[list(reached)].ravel().tolist())
        asked = [*seen.values()]
        if not any(asked):
            return 1  # then words of all lengths are
        if not all(asked[[*seen].index(reached) :]):
            return None
        return max(1, len(asked) - asked[::-1].index(False) if False in asked else 1)

    def _specified(self) -> dict[str, Any]:
        dfa = self.dfa
        return {
            "transitions": {
                str(number): {symbol: str(target) for symbol, target in zip(dfa.alphabet, row, strict=True)}
                for number, row in enumerate(dfa.table.tolist())
            },
            "initial": str(dfa.initial_number),
            "accepting": [str(number) for number in np.flatnonzero(dfa.accepting_mask)],
        }


class ModularArithmetic(FinalAnswer):
    """The value of an expression in +, −, × and digits, modulo a number, × before + and −.

    Expressions end in ``=``, after which the value is asked. All expressions of a length are as likely.
    Brackets nest up to ``depth``; with 0 the task is the regular one of the published tables. InputError
    if the modulus is not in 2 … 10, or the depth not in 0 … 20.

    Source:
        Delétang et al. 2023, "Neural Networks and the Chomsky Hierarchy", arXiv 2207.02098.

    Example:
        >>> task = ModularArithmetic()
        >>> batch = task.batch(1, 4, np.random.default_rng(3))
        >>> "".join(task.token_names[token] for token in batch.tokens[0]), batch.targets.max().item()
        ('1*2=', 2)
    """

    specified_as, specified_by = "arithmetic", ("modulus", "depth")

    @checked
    def __init__(
        self,
        modulus: int = 5,
        depth: int = 0,
        *,
        name: str = "modular-arithmetic",
        description: str | None = None,
    ) -> None:
        self.modulus = check_integer("modulus", modulus, 2, most=10)
        self.depth = check_integer("depth", depth, 0, most=20)
        self.target_names = tuple(map(str, range(self.modulus)))
        self.token_names = (*self.target_names, "+", "-", "*", "=", *("()" if depth else ""))
        self.name = name
        with_brackets = f" with brackets at most {depth} deep" if depth else ""
        self.description = description or f"value modulo {modulus} of an expression{with_brackets}"

    @cached_property
    def grammar(self) -> DFA:
        """The automaton of expressions: the open brackets, and whether a digit or an operator is next."""
        error, end = "error", "end"
        transitions: dict[str, dict[str, str]] = {
            state: dict.fromkeys(self.token_names, error) for state in (error, end)
        }
        for depth in range(self.depth + 1):
            digit, operator = f"digit {depth}", f"operator {depth}"
            transitions[digit] = dict.fromkeys(self.token_names, error)
            transitions[digit] |= dict.fromkeys(self.target_names, operator)
            transitions[operator] = dict.fromkeys(self.token_names, error) | dict.fromkeys("+-*", digit)
            if depth < self.depth:
                transitions[digit]["("] = f"digit {depth + 1}"
            if depth:
                transitions[operator][")"] = f"operator {depth - 1}"
            else:
                transitions[operator]["="] = end
        return DFA(transitions, self.token_names, transitions, "digit 0", [end])

    def lengths(self, longest: int) -> IntArray:
        """Return the lengths of expressions with their ``=``."""
        counts = log_counts(self.grammar, longest)[:, self.grammar.initial_number]
        return np.flatnonzero(np.isfinite(counts))

    def draw(self, count: int, longest: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return expressions, their lengths and their values."""
        lengths = self._one_of(self.lengths(longest), count, longest, rng)
        words = draw_words(self.grammar, lengths, rng)
        return words, lengths, self.values(words, lengths)

    def values(self, words: IntArray, lengths: IntArray) -> IntArray:
        """Return the values of expressions, read from left to right with a sum and a product a bracket."""
        rows, m = np.arange(lengths.size), self.modulus
        plus, minus, _times, equals, opening, closing = range(m, m + 6)
        depth = np.zeros(lengths.size, np.int64)
        total = np.zeros((lengths.size, self.depth + 1), np.int64)  # of the terms before this one
        term = np.ones_like(total)  # of this one, with its sign
        for place in range(words.shape[1]):
            token = np.where(place < lengths, words[:, place], equals)
            here = total[rows, depth], term[rows, depth]
            opened, closed = token == opening, token == closing
            value = np.where(closed, sum(here) % m, token)
            depth = depth + opened - closed
            total[opened, depth[opened]], term[opened, depth[opened]] = 0, 1
            before = total[rows, depth], term[rows, depth]
            factor = (token < m) | closed
            added = (token == plus) | (token == minus)
            total[rows, depth] = np.where(added, sum(before) % m, before[0])
            following = np.where(added, np.where(token == plus, 1, m - 1), before[1])
            term[rows, depth] = np.where(factor, before[1] * value % m, following)
        return (total[:, 0] + term[:, 0]) % m


ONE, ARROW, COMMA, QUESTION = range(4)
SHORTEST = 16
"""Tokens; among shorter words hardly a length has both answers."""
_TRIES, _USUAL_TRIES, _MOST_NODES = 300, 40, 10**7
"""Drawing is given up after so many tries a word; of many words, after the usual and so many nodes more."""
_SLACK = 32
"""Words that may be late: partners of the same length have to be found first."""
_LEAST_NODES = 3


class SortedConnectivity(FinalAnswer):
    """Reads ``s?t`` and then edges ``i>j`` with i < j, i ascending, after commas; nodes in unary.

    A node has its edge with probability ``edges``, to a later node, each as likely. In half of the words the
    end t is on the path that begins at s. In the others it is not, but behind s, and another edge leads to
    it. Words of a length come in pairs of both answers, so that the length tells nothing. InputError if the
    probability is not above 0 and at most 1.

    Source:
        Merrill et al. 2026, "Why Are Linear RNNs More Parallelizable?", arXiv 2603.03612, name the problem;
        how words are written and drawn is ours.

    Example:
        >>> task = SortedConnectivity()
        >>> batch = task.batch(1, 24, np.random.default_rng(2))
        >>> "".join(task.token_names[token] for token in batch.tokens[0]), batch.targets.max().item()
        ('11?1111,11>1111,111>1111', 1)
    """

    token_names = ("1", ">", ",", "?")
    target_names = ("apart", "connected")
    specified_as, specified_by = "connectivity", ("edges",)

    @checked
    def __init__(
        self, edges: float = 0.5, *, name: str = "connectivity", description: str | None = None
    ) -> None:
        self.edges = check_number("edges", edges)
        if not 0 < self.edges <= 1:
            raise InputError(f"edges is {edges}; give a probability above 0 and at most 1")
        self.name = name
        self.description = (
            description or "is a node reachable from another along sorted single edges, in unary?"
        )

    def draw(self, count: int, longest: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return words, their lengths, and 1 for those whose nodes are connected."""
        if longest < SHORTEST:
            raise InputError(
                f"length is {longest}, and {shown(self.name)} has not both answers in words so short; give "
                f"at least {SHORTEST}"
            )
        drawn: list[tuple[list[int], int]] = []
        waiting: tuple[dict[int, list[list[int]]], ...] = ({}, {})  # by answer, by length
        most = _USUAL_TRIES * count + _MOST_NODES // int(np.sqrt(2 * longest))
        attempt = 0
        while len(drawn) < count:
            if attempt == min(_TRIES * min(count, len(drawn) + _SLACK), most):
                raise InputError(
                    f"edges is {self.edges}: too few words of at most {longest} tokens have both answers; "
                    "give a greater length, or edges nearer to a half"
                )
            answer, attempt = attempt % 2, attempt + 1
            word = self._word(self._nodes(int(rng.integers(SHORTEST, longest + 1)), rng), answer, rng)
            if not word or len(word) > longest:
                continue
            if partners := waiting[1 - answer].get(len(word)):
                drawn += [(word, answer), (partners.pop(), 1 - answer)]
            else:
                waiting[answer].setdefault(len(word), []).append(word)
        words, lengths, answers = np.zeros((count, longest), np.int64), *np.zeros((2, count), np.int64)
        for row, place in enumerate(rng.permutation(len(drawn))[:count]):
            word, answers[row] = drawn[place]
            lengths[row] = len(word)
            words[row, : len(word)] = word
        return words, lengths, answers

    def _nodes(self, length: int, rng: np.random.Generator) -> int:
        """Return a number of nodes whose words have about this length."""
        # node i takes i ones, what it points to some (i + n) / 2, and both a sign
        sizes = np.arange(_LEAST_NODES, 3 + int(np.sqrt(2 * length)))
        typical = sizes + 3 + self.edges * (0.75 * sizes**2 + 2 * sizes)
        fitting = int((typical <= length).sum())
        return int(sizes[max(0, min(fitting - int(rng.integers(0, 2)), len(sizes) - 1))])

    def _word(self, nodes: int, connected: int, rng: np.random.Generator) -> list[int]:
        """Return a word, or none if the graph that is drawn has no such pair."""
        following = {
            node: int(rng.integers(node + 1, nodes + 1))
            for node in range(1, nodes)
            if rng.random() < self.edges
        }
        start = int(rng.integers(1, nodes))
        path = reached(following, start)
        choices = path[1:]
        if not connected:
            choices = sorted(node for node in {*following.values()} - {*path} if node > start)
        if not choices:
            return []
        end = choices[rng.integers(len(choices))]
        word = [ONE] * start + [QUESTION] + [ONE] * end
        for node, target in following.items():
            word += [COMMA] + [ONE] * node + [ARROW] + [ONE] * target
        return word


def reached(following: dict[int, int], start: int) -> list[int]:
    """Return the nodes of the path that begins at one, itself included."""
    path = [start]
    while path[-1] in following:
        path.append(following[path[-1]])
    return path
