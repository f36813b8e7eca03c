"""States of a recurrent model told apart by what the model answers afterwards, not by where they lie.

The states after two words are equivalent (Myhill and Nerode) if every suffix gets the same answers after
both. Of all suffixes a few are asked: the rows of an observation table (Angluin 1987). What two states answer
differently proves them different; what they answer alike proves nothing, and is why automata made from rows
are checked afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.framework.arrays import IntArray
from automata.machines.mealy import MealyMachine, distinguishing_tokens, word_in_names
from automata.tasks.allowed_traces import allowed_traces
from automata.tasks.interface import Task
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.modes import Solve
from theory import State

Suffix = tuple[int, ...]


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
            answers.append(logits.argmax(dim=-1).numpy())
        self.counts["tokens"] += len(tokens)
        return join(following), np.concatenate(answers)

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


def join(states: Sequence[State]) -> State:
    """Return batches of states as one batch."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


class ObservationTable:
    """The answers of a model to suffixes, for a growing list of its states.

    Columns are suffixes; an entry is the answer to the last token of the suffix. States with equal rows are
    in one class. Classes are numbered as they first appear, and numbered anew when a suffix is added.

    Args:
        reader: of the model.
        tokens: the size of the vocabulary; the first suffixes are the single tokens.

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
        return torch.cat([part.flatten(1).double() for part in self._joined().values()], dim=1)

    def _joined(self) -> State:
        if len(self._states) > 1:
            self._states = [join(self._states)]
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
        for token in sorted({suffix[len(read)] for suffix in asked if _goes_on(read, suffix)}):
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


def _goes_on(read: Suffix, suffix: Suffix) -> bool:
    return len(suffix) > len(read) and suffix[: len(read)] == read


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
        """Whether the model itself differs from the task on this word."""
        return self.model != self.task

    def sentence(self, task: Task) -> str:
        """The word and the answers by name."""
        names = task.target_names
        shown = word_in_names(self.word[:SHOWN_TOKENS], task.token_names)
        word = shown if len(self.word) <= SHOWN_TOKENS else f"{shown}… ({len(self.word)} tokens)"
        return (
            f"after {word} the model answers {names[self.model]}, its automaton {names[self.automaton]}, "
            f"the task {names[self.task]}"
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
