"""Is a node of a graph reachable from another, where every node has at most one edge and edges are sorted?

Deterministic graph connectivity is complete for logarithmic space. With node i written as i times ``1`` and
the edges in ascending order, two counters solve it in one pass: where one is, and what is read.
"""

import numpy as np

from automata.checks import check_number, checked, shown
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.tasks.final_answers import FinalAnswer

ONE, ARROW, COMMA, QUESTION = range(4)
SHORTEST = 16
"""Tokens; among shorter words hardly a length has both answers."""
_TRIES = 300
"""For each word, before drawing is given up."""
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

    def __repr__(self) -> str:
        return f"<SortedConnectivity {self.name}: edges {self.edges}>"

    def draw(self, count: int, longest: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return words, their lengths, and 1 for those whose nodes are connected."""
        if longest < SHORTEST:
            raise InputError(
                f"length is {longest}, and {shown(self.name)} has not both answers in words so short; give "
                f"at least {SHORTEST}"
            )
        drawn: list[tuple[list[int], int]] = []
        waiting: tuple[dict[int, list[list[int]]], ...] = ({}, {})  # by answer, by length
        for attempt in range(_TRIES * count):
            answer = attempt % 2
            word = self._word(self._nodes(int(rng.integers(SHORTEST, longest + 1)), rng), answer, rng)
            if not word or len(word) > longest:
                continue
            if partners := waiting[1 - answer].get(len(word)):
                drawn += [(word, answer), (partners.pop(), 1 - answer)]
            else:
                waiting[answer].setdefault(len(word), []).append(word)
            if len(drawn) >= count:
                break
        else:
            raise InputError(
                f"edges is {self.edges}: too few words of at most {longest} tokens have both answers; give a "
                "greater length, or edges nearer to a half"
            )
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
