"""The automaton behind a model: classes of visited states, transitions by vote, the part that can be reached.

1. The model reads sequences of its task. The states on the way are classed by what the model answers after
   them (`analysis.extraction.behaviour`).
2. Every step that was read is a vote: from this class, this token leads to that class. The majority decides.
3. From the class of the initial state on, transitions with too few votes get more: the model reads the token
   in other states of the class. So the automaton is complete, and classes that only stray states fall into
   are not part of it.
4. Where votes disagree, the states of a class have different futures. The suffix that shows it is asked from
   then on, which splits the class. This ends when the votes agree or enough suffixes were asked.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from analysis.extraction.behaviour import ObservationTable, Reader, Suffix, join
from analysis.framework.arrays import IntArray
from automata.machines.mealy import MealyMachine, minimise_mealy


@dataclass(frozen=True)
class Effort:
    """How far an extraction goes."""

    votes: int = 4  # the least votes for a transition, where its class has as many states
    inconsistent: float = 1e-3  # the share of votes against the majority that is put up with
    max_suffixes: int = 12  # how many suffixes are asked beyond the single tokens
    max_states: int = 1000  # more classes than this are not looked at


@dataclass(frozen=True, eq=False)
class Extraction:
    """An automaton made from a model's states."""

    # minimal, states numbered in breadth-first order; that of the most suffixes with which no more than
    # max_states classes can be reached; None if that is so with no suffixes but the tokens
    machine: MealyMachine | None
    classes: int  # how many classes of states were told apart, stray ones included
    reachable: int  # how many of them the transitions reach from the initial state
    votes: int  # how many steps voted on the transitions of reachable classes
    against: int  # how many of them were against the majority
    stray: float  # the share of visited states whose class is not reachable
    suffixes: tuple[Suffix, ...]  # what was asked, as token numbers
    vectors: Tensor  # the visited states, [states, features]
    visited_class: IntArray  # their classes, [states]; reachable ones are numbered first

    @property
    def inconsistent(self) -> float:
        """The share of votes against the majority."""
        return self.against / max(1, self.votes)


def extract_machine(
    reader: Reader, tokens: Tensor, vocabulary_size: int, effort: Effort | None = None
) -> Extraction:
    """Return the automaton that a model acts like on given sequences.

    Args:
        reader: of the model.
        tokens: the sequences, int64 ``[sequences, length]``.
        vocabulary_size: how many tokens there are.
        effort: how far to go.

    Source:
        Rows of answers as states: Angluin 1987. States of a network merged where a machine allows it: Merrill
        & Tsilivis 2022, "Extracting finite automata from RNNs using state merging", arXiv 2201.12451. A split
        of states where the automaton misleads: Weiss, Goldberg & Yahav 2018, arXiv 1711.09576.
    """
    effort = effort or Effort()
    votes = _Votes(reader, tokens, vocabulary_size)
    vectors = votes.table.vectors()
    found: Extraction | None = None
    while True:
        order = votes.close(effort)
        if len(order) > effort.max_states:
            # the automaton of fewer suffixes, if there was one, says more than none
            return found or _extraction(votes, order, vectors, complete=False)
        found = _extraction(votes, order, vectors, complete=True)
        enough = len(found.suffixes) >= vocabulary_size + effort.max_suffixes
        suffix = votes.dividing_suffix(order) if found.inconsistent > effort.inconsistent else None
        if suffix is None or enough:
            return found
        votes.refine(suffix)


def _extraction(votes: "_Votes", order: list[int], vectors: Tensor, complete: bool) -> Extraction:
    counted, against = votes.count(order)
    # reachable classes first, in breadth-first order, then the others
    number = np.full(votes.table.class_count, -1)
    number[order] = np.arange(len(order))
    strays = number < 0
    number[strays] = len(order) + np.arange(strays.sum())
    classes = votes.table.class_of[: len(vectors)]
    return Extraction(
        machine=minimise_mealy(votes.machine(order)) if complete else None,
        classes=votes.table.class_count,
        reachable=len(order),
        votes=counted,
        against=against,
        stray=float(strays[classes].mean()),
        suffixes=tuple(votes.table.suffixes),
        vectors=vectors,
        visited_class=number[classes],
    )


class _Votes:
    """The steps of a model between listed states, and what they say about classes of states."""

    def __init__(self, reader: Reader, tokens: Tensor, vocabulary_size: int) -> None:
        self.reader = reader
        self.vocabulary_size = vocabulary_size
        self.table = ObservationTable(reader, vocabulary_size)
        states, _ = reader.walk(tokens)
        batch = len(tokens)
        # state 0 is the initial one, for all sequences; then position by position
        self.table.add({name: part[:1] for name, part in states[0].items()})
        self.table.add(join(states[1:]))
        after = 1 + np.arange(tokens.shape[1] * batch).reshape(-1, batch)
        before = np.concatenate([np.zeros((1, batch), dtype=np.int64), after[:-1]])
        self.target: dict[tuple[int, int], int] = {
            (source, token): target
            for source, token, target in zip(
                before.ravel().tolist(), tokens.T.flatten().tolist(), after.ravel().tolist(), strict=True
            )
            if source  # of the initial state there is one for all sequences: it reads every token below
        }
        self.tally: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self._read([(0, token) for token in range(vocabulary_size)])
        self._tally()

    def close(self, effort: Effort) -> list[int]:
        """Add votes until all transitions of reachable classes have enough; return these classes in order."""
        while True:
            order = [int(self.table.class_of[0])]
            missing: list[tuple[int, int]] = []
            for source in order:  # grows while it is read
                for token in range(self.vocabulary_size):
                    missing += self._unread(source, token, effort.votes)
                    if self.tally[source, token]:
                        target = self.majority(source, token)
                        if target not in order:
                            order.append(target)
                if len(order) > effort.max_states:
                    return order
            if not missing:
                return order
            self._read(missing)
            self._tally()

    def majority(self, source: int, token: int) -> int:
        """Return the class that most votes of a transition are for, of equal ones the first."""
        votes = self.tally[source, token]
        return min(votes, key=lambda target: (-votes[target], target))

    def count(self, order: list[int]) -> tuple[int, int]:
        """Return the votes on transitions of these classes, and how many are against the majority."""
        tallies = [self.tally[source, token] for source in order for token in range(self.vocabulary_size)]
        counted = sum(tally.total() for tally in tallies)
        return counted, counted - sum(max(tally.values(), default=0) for tally in tallies)

    def dividing_suffix(self, order: list[int]) -> Suffix | None:
        """Return a suffix, not asked yet, that states of one class answer differently; None if none is known.

        Of the transition with the most votes against the majority: its token, and then the shortest suffix
        that the two classes with the most votes answer differently.
        """
        disputed = sorted(
            (-(tally.total() - max(tally.values())), source, token)
            for source in order
            for token in range(self.vocabulary_size)
            if len(tally := self.tally[source, token]) > 1
        )
        for _, source, token in disputed:
            (first, _), (second, _) = self.tally[source, token].most_common(2)
            for suffix in self.table.differing_suffixes(first, second):
                if (token, *suffix) not in self.table.suffixes:
                    return (token, *suffix)
        return None

    def refine(self, suffix: Suffix) -> None:
        """Ask one more suffix in every state, which divides classes, and count the votes for the new ones."""
        self.table.refine(suffix)
        self._tally()

    def machine(self, order: list[int]) -> MealyMachine:
        """Return the automaton of the majorities."""
        number = {source: index for index, source in enumerate(order)}
        tokens = range(self.vocabulary_size)
        return MealyMachine(
            [[number[self.majority(source, token)] for token in tokens] for source in order],
            [[self.table.answer_of(source, (token,)) for token in tokens] for source in order],
        )

    def _unread(self, source: int, token: int, votes: int) -> list[tuple[int, int]]:
        wanted = votes - self.tally[source, token].total()
        if wanted <= 0:
            return []
        unread = [state for state in self.table.members(source) if (state, token) not in self.target]
        return [(state, token) for state in unread[:wanted]]

    def _read(self, steps: list[tuple[int, int]]) -> None:
        first = len(self.table)
        after, _ = self.reader.read(
            self.table.state([state for state, _ in steps]), torch.tensor([token for _, token in steps])
        )
        self.table.add(after)
        self.target.update({step: first + index for index, step in enumerate(steps)})

    def _tally(self) -> None:
        """Count the votes anew: classes change when a suffix is added."""
        self.tally.clear()
        class_of = self.table.class_of.tolist()
        for (source, token), target in self.target.items():
            self.tally[class_of[source], token][class_of[target]] += 1
