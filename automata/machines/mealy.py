"""Mealy machines: automata that answer after every symbol, as a recurrent model does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_members, checked
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import distinguishing_word, minimise, product
from automata.monoids.cayley import IntArray, integer_array

SINK = "no such trace"
"""The state of an automaton of traces that no accepted trace reaches."""

Word = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MealyMachine:
    """A complete deterministic machine that reads a token and gives an answer, both by number.

    Two states are equivalent if after both of them every word gets the same answers. There is no answer to
    the empty word, so that a model, which says nothing before its first token, can be such a machine.
    InputError if the shapes differ, a state that is named does not exist, or an answer is negative.

    Args:
        table: δ, shape ``[states, tokens]``; the number of the state after the token.
        answers: λ, shape ``[states, tokens]``; the number of the answer to the token.
        initial: the number of the initial state.

    Source:
        Mealy 1955, "A method for synthesizing sequential circuits".

    Example:
        >>> parity = MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]])
        >>> parity.read([[1, 0, 1, 1]])
        array([[1, 1, 0, 1]])
    """

    table: IntArray
    answers: IntArray
    initial: int

    @checked
    def __init__(self, table: ArrayLike, answers: ArrayLike, initial: int = 0) -> None:
        steps, spoken = integer_array("table", table), integer_array("answers", answers)
        if steps.ndim != 2 or not steps.size or steps.shape != spoken.shape:
            raise InputError(
                f"table has shape {list(steps.shape)} and answers {list(spoken.shape)}; "
                "give both as [states, tokens]"
            )
        check_members("state numbers", (initial, *steps.ravel().tolist()), len(steps))
        if spoken.min() < 0:
            raise InputError(f"answers holds {spoken.min()}; give numbers of at least 0")
        vars(self).update(table=np.array(steps), answers=np.array(spoken), initial=int(initial))
        for array in (self.table, self.answers):
            array.setflags(write=False)

    @property
    def state_count(self) -> int:
        """The number of states."""
        return len(self.table)

    @property
    def token_count(self) -> int:
        """The number of tokens."""
        return self.table.shape[1]

    def states(self, tokens: ArrayLike) -> IntArray:
        """Return the states on the way: ``[batch, length]`` → ``[batch, length + 1]``, the initial one first.

        InputError if tokens has another shape, or holds one that does not exist.
        """
        given = integer_array("tokens", tokens)
        if given.ndim != 2:
            raise InputError(f"tokens has shape {list(given.shape)}; give [batch, length]")
        check_members("tokens", np.unique(given).tolist(), self.token_count)
        states = np.full((len(given), given.shape[1] + 1), self.initial)
        for position, token in enumerate(given.T):
            states[:, position + 1] = self.table[states[:, position], token]
        return states

    def read(self, tokens: ArrayLike) -> IntArray:
        """Return the answer to every token, shape ``[batch, length]`` as the tokens."""
        states = self.states(tokens)
        return np.asarray(self.answers[states[:, :-1], integer_array("tokens", tokens)])

    def traces(self, answers: Iterable[int]) -> DFA:
        """Return the automaton that accepts a word token, answer, token, answer, … that the machine produces.

        Its language determines the machine up to equivalent states, which makes what is known of languages
        (minimal automata, shortest distinguishing words) known of machines.

        The alphabet of answers may hold some that this machine never gives.
        """
        spoken = sorted({*answers, *self.answers.ravel().tolist()})
        tokens = [read_symbol(token) for token in range(self.token_count)]
        replies = [answer_symbol(answer) for answer in spoken]
        nowhere = dict.fromkeys([*tokens, *replies], SINK)
        transitions: dict[object, dict[str, object]] = {SINK: {**nowhere}}
        for state in range(self.state_count):
            row: dict[str, object] = {**nowhere}
            for token in range(self.token_count):
                target, answer = int(self.table[state, token]), int(self.answers[state, token])
                row[read_symbol(token)] = (target, answer)
                transitions[target, answer] = {**nowhere, answer_symbol(answer): target}
            transitions[state] = row
        accepting = [state for state in transitions if state != SINK]
        return DFA(transitions, [*tokens, *replies], transitions, self.initial, accepting)

    def __repr__(self) -> str:
        return f"<MealyMachine: {self.state_count} states, {self.token_count} tokens>"


@checked
def minimise_mealy(machine: MealyMachine) -> MealyMachine:
    """Return the smallest machine with the same answers, states numbered in breadth-first order.

    Two machines answer alike exactly if this returns equal tables and answers.

    Example:
        >>> minimise_mealy(MealyMachine([[1, 2], [0, 3], [3, 0], [2, 1]], [[0, 1], [0, 1], [1, 0], [1, 0]]))
        <MealyMachine: 2 states, 2 tokens>
    """
    smallest = minimise(machine.traces(()))
    spoken = sorted(set(machine.answers.ravel().tolist()))
    numbers = {smallest.initial: 0}
    order = [smallest.initial]
    table: list[list[int]] = []
    answers: list[list[int]] = []
    for state in order:  # grows while it is read
        row, replies = [], []
        for token in range(machine.token_count):
            asked = smallest.transitions[state][read_symbol(token)]
            reply, target = next(
                (answer, following)
                for answer in spoken
                if (following := smallest.transitions[asked][answer_symbol(answer)]) in smallest.accepting
            )
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
            row.append(numbers[target])
            replies.append(reply)
        table.append(row)
        answers.append(replies)
    return MealyMachine(table, answers)


@checked
def distinguishing_tokens(
    first: MealyMachine, second: MealyMachine, allowed: DFA | None = None
) -> Word | None:
    """Return a shortest word whose last token gets different answers, or None if there is none.

    Words are confined to what ``allowed`` accepts, an automaton over the traces of both machines (see
    `automata.tasks.word_problem`). InputError if the machines read different numbers of tokens.

    Example:
        >>> parity = MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]])
        >>> at_most_three = MealyMachine([[0, 1], [1, 2], [2, 3], [3, 3]], [[0, 1], [1, 0], [0, 1], [1, 1]])
        >>> distinguishing_tokens(parity, at_most_three)
        (1, 1, 1, 1)
    """
    if first.token_count != second.token_count:
        raise InputError(
            f"one machine reads {first.token_count} tokens, the other {second.token_count}; give two that "
            "read the same"
        )
    spoken = {*first.answers.ravel().tolist(), *second.answers.ravel().tolist()}
    traces = [machine.traces(spoken) for machine in (first, second)]
    if allowed is not None:
        traces = [product(trace, allowed) for trace in traces]
    word = distinguishing_word(*traces)
    return None if word is None else tuple(int(symbol.split()[1]) for symbol in word[::2])


def word_in_names(word: Sequence[int], names: Sequence[str]) -> str:
    """Return a word as text: names side by side if each is one letter, else with spaces.

    Example:
        >>> word_in_names([1, 1, 0], ["0", "1"]), word_in_names([0, 1], ["keep", "write 0"])
        ('110', 'keep, write 0')
    """
    return ("" if all(len(name) == 1 for name in names) else ", ").join(names[token] for token in word)


def read_symbol(token: int) -> str:
    """Return the symbol of a trace that says which token is read."""
    return f"read {token}"


def answer_symbol(answer: int) -> str:
    """Return the symbol of a trace that says what is answered."""
    return f"answer {answer}"
