"""The automaton behind a model: classes of visited states, transitions by vote, the part that can be reached.

States are told apart by what the model answers afterwards, not by where they lie. The states after two words
are equivalent (Myhill and Nerode) if every suffix gets the same answers after both. A few suffixes are asked:
the rows of an observation table (Angluin 1987). Different answers prove two states different; equal answers
prove nothing, so automata made from rows are checked afterwards.

1. The model reads sequences of its task. The states on the way are classed by what the model answers after
   them.
2. Every step that was read is a vote: from this class, this token leads to that class. The majority decides.
3. From the class of the initial state on, transitions with too few votes get more: the model reads the token
   in other states of the class. So the automaton is complete, and classes that only stray states fall into
   are not part of it.
4. Where votes disagree, the states of a class have different futures. The suffix that shows it is asked from
   then on, which splits the class. This ends when the votes agree or enough suffixes were asked.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.arrays import IntArray
from analysis.framework.settings import AnalysisSettings
from analysis.framework.visited_states import entries, finite, joined
from automata.errors import InputError
from automata.machines.mealy import MealyMachine, distinguishing_tokens, minimise_mealy, word_in_names
from automata.tasks.interface import Task
from automata.tasks.word_problem import allowed_traces
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel, answers_of
from implicit.modes import Solve
from theory import State

Suffix = tuple[int, ...]


class ExtractionSettings(AnalysisSettings):
    """Settings of the extraction of an automaton, and of its check."""

    sequences: PositiveInt = Field(default=128, description="sequences whose states are looked at")
    length: PositiveInt | None = Field(
        default=None, description="tokens per sequence; the training length, at most 4096, if none"
    )
    votes: PositiveInt = Field(default=4, description="the least votes for a transition")
    inconsistent: float = Field(
        default=1e-3, ge=0, lt=1, description="share of votes against the majority that is put up with"
    )
    max_suffixes: NonNegativeInt = Field(
        default=12, description="suffixes that states are told apart by, beyond the single tokens"
    )
    max_states: PositiveInt = Field(default=1000, description="more classes than this are not looked at")
    fresh_words: PositiveInt = Field(default=64, description="fresh words on which the automaton is checked")
    times: PositiveInt = Field(
        default=4, description="length of the fresh words, as a multiple of that of the sequences"
    )
    demanded: float = Field(
        default=0.99,
        gt=0,
        le=1,
        description="share of tokens, up to the sequences' length, at which automaton and model must agree",
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of the fresh words")


@dataclass(frozen=True, eq=False)
class Reader:
    """A model that is read token by token, in batches, and answers with its most probable class."""

    model: SequenceModel  # under the interface of `SequenceModel`, in any dtype
    # of the fixed points, for implicit models
    stopping: Stopping = field(default_factory=lambda: Stopping(rtol=1e-3, max_iterations=200))
    batch_size: int = 1024  # states that are advanced together; implicit models wait for the slowest of them
    counts: dict[str, int] = field(default_factory=lambda: {"tokens": 0, "unconverged": 0})
    """How many tokens were read so far, and at how many of them the model had no fixed point."""

    @torch.no_grad()
    def read(self, state: State, tokens: Tensor) -> tuple[State, IntArray]:
        """Read a token in each of several states; return the states after it and the answers, ``[batch]``."""
        following, answers = [], []
        for first in range(0, len(tokens), self.batch_size):
            rows = slice(first, first + self.batch_size)
            after, logits = self._step({name: part[rows] for name, part in state.items()}, tokens[rows])
            following.append(after)
            answers.append(answers_of(logits).numpy())
        self.counts["tokens"] += len(tokens)
        return joined(following), np.concatenate(answers)

    @torch.no_grad()
    def walk(self, tokens: Tensor) -> tuple[list[State], IntArray]:
        """Read sequences ``[batch, length]``; return the states, one more than tokens, and the answers."""
        states, answers = [self.model.init_state(len(tokens))], []
        for token in tokens.T:
            state, answer = self.read(states[-1], token)
            states.append(state)
            answers.append(answer)
        return states, np.stack(answers, axis=1)

    @torch.no_grad()
    def answers(self, tokens: Tensor) -> IntArray:
        """Return the answers to sequences ``[batch, length]`` without keeping the states."""
        state, answers = self.model.init_state(len(tokens)), []
        for token in tokens.T:
            state, answer = self.read(state, token)
            answers.append(answer)
        return np.stack(answers, axis=1)

    def _step(self, state: State, tokens: Tensor) -> tuple[State, Tensor]:
        output = self.model.run(tokens[:, None], state, Solve("sequential", stopping=self.stopping))
        if output.solution is not None:
            self.counts["unconverged"] += int((~output.solution.converged).sum())
        return output.state, output.logits[:, 0]


class ObservationTable:
    """The answers of a model to suffixes, for a growing list of its states.

    Columns are suffixes, at first the single tokens; an entry is the answer to the last token of the suffix.
    States with equal rows are in one class. Classes are numbered as they first appear, and numbered anew when
    a suffix is added.

    Source:
        Angluin 1987, "Learning regular sets from queries and counterexamples".
    """

    def __init__(self, reader: Reader, tokens: int) -> None:
        self.reader = reader
        self.tokens = tokens
        self.suffixes: list[Suffix] = [(token,) for token in range(tokens)]
        self._states: list[State] = []
        self._rows = np.zeros((0, tokens), dtype=np.int64)
        self._classes: dict[bytes, int] = {}
        self._members: list[list[int]] = []
        self._class_of: list[int] = []

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self._class_of)

    @property
    def class_count(self) -> int:
        """The number of classes."""
        return len(self._members)

    @property
    def class_of(self) -> IntArray:
        """The class of every state, in the order in which they were added."""
        return np.array(self._class_of, dtype=np.int64)

    def members(self, number: int) -> list[int]:
        """Return the states of a class."""
        return self._members[number]

    def answer_of(self, number: int, suffix: Suffix) -> int:
        """Return what the states of a class answer to the last token of a suffix that was asked."""
        return int(self._rows[self._members[number][0], self.suffixes.index(suffix)])

    def state(self, numbers: Sequence[int]) -> State:
        """Return states by number, as a batch."""
        whole = self._joined()
        return {name: part[list(numbers)] for name, part in whole.items()}

    def add(self, state: State) -> IntArray:
        """Ask all suffixes in further states, a batch; return their classes."""
        rows = self._ask(state, self.suffixes)
        self._states.append(state)
        self._rows = np.concatenate([self._rows, rows])
        return np.array([self._classify(row) for row in rows], dtype=np.int64)

    def refine(self, suffix: Suffix) -> None:
        """Ask one more suffix in every state; number the classes anew."""
        self.suffixes.append(suffix)
        self._rows = np.concatenate([self._rows, self._ask(self._joined(), [suffix])], axis=1)
        self._classes, self._members, self._class_of = {}, [], []
        for row in self._rows:
            self._classify(row)

    def differing_suffixes(self, first: int, second: int) -> list[Suffix]:
        """Return the suffixes that two classes answer differently, shortest first."""
        one, other = (self._rows[self._members[number][0]] for number in (first, second))
        return sorted((self.suffixes[column] for column in np.flatnonzero(one != other)), key=len)

    def vectors(self) -> Tensor:
        """Return all states as vectors, ``[states, features]``, for drawing."""
        return finite(entries(self._joined())).double()

    def _joined(self) -> State:
        if len(self._states) > 1:
            self._states = [joined(self._states)]
        return self._states[0]

    def _ask(self, state: State, suffixes: Sequence[Suffix]) -> IntArray:
        count = len(next(iter(state.values())))
        columns: dict[Suffix, IntArray] = {}
        self._ask_below(state, (), set(suffixes), columns, count)
        return np.stack([columns[suffix] for suffix in suffixes], axis=1)

    def _ask_below(
        self, state: State, read: Suffix, asked: set[Suffix], columns: dict[Suffix, IntArray], count: int
    ) -> None:
        """Walk the tree of suffixes depth first, so that only one state a level is held."""
        depth = len(read)
        longer = (suffix for suffix in asked if len(suffix) > depth and suffix[:depth] == read)
        for token in sorted({suffix[depth] for suffix in longer}):
            following, answers = self.reader.read(state, torch.full((count,), token))
            columns[*read, token] = answers
            self._ask_below(following, (*read, token), asked, columns, count)

    def _classify(self, row: IntArray) -> int:
        number = self._classes.setdefault(row.tobytes(), len(self._members))
        if number == len(self._members):
            self._members.append([])
        self._members[number].append(len(self._class_of))
        self._class_of.append(number)
        return number


SHOWN_TOKENS = 40


@dataclass(frozen=True)
class Difference:
    """A word after whose last token two answers differ.

    Example:
        >>> Difference((1, 1), model=1, automaton=1, task=0).model_is_wrong
        True
    """

    word: tuple[int, ...]  # token numbers
    model: int  # the model's answer to the last token
    automaton: int  # that of the extracted automaton
    task: int  # that of the task's automaton

    @property
    def model_is_wrong(self) -> bool:
        """True if the model itself differs from the task on this word."""
        return self.model != self.task

    def sentence(self, task: Task) -> str:
        """The word and the answers by name."""
        names = task.target_names
        shown = word_in_names(self.word[:SHOWN_TOKENS], task.token_names)
        size, more = len(self.word), "…" if len(self.word) > SHOWN_TOKENS else ""
        word = f"{shown}{more} ({size} token{'s' * (size > 1)})"  # "11" may be one of them, or two
        return (
            f"after {word} the model answers {names[self.model]!r}, the extracted automaton "
            f"{names[self.automaton]!r}, the task {names[self.task]!r}"
        )


def first_difference(
    tokens: IntArray, model: IntArray, automaton: IntArray, labels: IntArray, agrees: NDArray[np.bool_]
) -> Difference | None:
    """The shortest beginning of a word that ends where ``agrees`` is False, with all answers there."""
    places = np.argwhere(~agrees)
    if not places.size:
        return None
    row, column = min(places.tolist(), key=lambda place: (place[1], place[0]))
    answers = (int(answer[row, column]) for answer in (model, automaton, labels))
    return Difference(tuple(tokens[row, : column + 1].tolist()), *answers)


def shortest_difference(
    reader: Reader, machine: MealyMachine, exact: MealyMachine, task: Task
) -> Difference | None:
    """A shortest word that tells the automata apart, with the model's own answer to it."""
    spoken = {*machine.answers.ravel().tolist(), *exact.answers.ravel().tolist()}
    word = distinguishing_tokens(machine, exact, allowed_traces(task, spoken))
    if word is None:
        return None
    last = [int(replies[0, -1]) for replies in (machine.read([word]), exact.read([word]))]
    return Difference(word, int(reader.answers(torch.tensor([word]))[0, -1]), *last)


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
    reader: Reader, tokens: Tensor, vocabulary_size: int, settings: ExtractionSettings
) -> Extraction:
    """Return the automaton that a model acts like on given sequences, int64 ``[sequences, length]``.

    Source:
        Rows of answers as states: Angluin 1987. States of a network merged where a machine allows it: Merrill
        & Tsilivis 2022, "Extracting finite automata from RNNs using state merging", arXiv 2201.12451. A split
        of states where the automaton misleads: Weiss, Goldberg & Yahav 2018, arXiv 1711.09576.
    """
    votes = _Votes(reader, tokens, vocabulary_size)
    vectors = votes.table.vectors()
    found: Extraction | None = None
    while True:
        order = votes.close(settings)
        if len(order) > settings.max_states:
            # the automaton of fewer suffixes, if there was one, says more than none
            return found or _extraction(votes, order, vectors, complete=False)
        found = _extraction(votes, order, vectors, complete=True)
        enough = len(found.suffixes) >= vocabulary_size + settings.max_suffixes
        suffix = votes.dividing_suffix(order) if found.inconsistent > settings.inconsistent else None
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
        self.table.add(joined(states[1:]))
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

    def close(self, settings: ExtractionSettings) -> list[int]:
        """Add votes until all transitions of reachable classes have enough; return these classes in order."""
        while True:
            order = [int(self.table.class_of[0])]
            missing: list[tuple[int, int]] = []
            for source in order:  # grows while it is read
                for token in range(self.vocabulary_size):
                    missing += self._unread(source, token, settings.votes)
                    if self.tally[source, token]:
                        target = self.majority(source, token)
                        if target not in order:
                            order.append(target)
                if len(order) > settings.max_states:
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

        It is the token of the transition with the most votes against the majority, and then the shortest
        suffix that the two classes with the most votes answer differently.
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
        number = {source: index for index, source in enumerate(order)}
        tokens = range(self.vocabulary_size)
        answers = [[self.table.answer_of(source, (token,)) for token in tokens] for source in order]
        if min(map(min, answers)) < 0:
            raise InputError("logits are NaN in a state that was visited; give a model without an overflow")
        targets = [[number[self.majority(source, token)] for token in tokens] for source in order]
        return MealyMachine(targets, answers)

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
