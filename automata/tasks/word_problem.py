"""The word problem as training data: tokens are elements or symbols, the label is the state after each."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_different, check_members, check_memory, check_share, checked, shown
from automata.errors import InputError, warn_caller
from automata.machines.dfa import DFA
from automata.machines.equivalence import reachable_states
from automata.machines.language import states_with_finite_future
from automata.machines.mealy import SINK, MealyMachine, answer_symbol, read_symbol
from automata.monoids.cayley import IntArray, integer_array
from automata.monoids.monoid import Monoid
from automata.tasks.interface import Batch, Task, check_at_least_one, check_batch, last_places, starts

FloatArray = NDArray[np.float64]

_SEQUENCES_AT_ONCE = 512  # measured: 256 and 1024 cost a fifth more, one block of 4096 up to twice as much


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WordProblem(Task):
    """Sequences of random tokens, labelled with the exact state after every token.

    Usually made by ``from_monoid``, ``from_dfa`` or ``automata.tasks.registry.make_task``. InputError if a
    number is outside its range, names are missing or repeated, ``hard_fraction`` is not in [0, 1], or below 1
    with no easy token or together with ``avoid``.

    Args:
        table: shape ``[states, tokens]``; the number of the state after the token.
        initial_state: the number of the state before the first token.
        token_names: one for each column.
        state_names: one for each row.
        hard_fraction: the probability that a token is drawn uniformly from all tokens (a *hard* one) instead
            of uniformly from the easy ones.
        easy_tokens: the numbers of the easy tokens; those that move no state if left out.
        avoid: the numbers of states that sampling keeps out of: a token is then drawn uniformly from those
            that lead elsewhere. For sinks, whose label would be constant from there on.

    Example:
        >>> problem = WordProblem([[0, 1], [1, 0]], 0, ["0", "1"], ["even", "odd"], name="parity")
        >>> problem.states([[1, 0, 1, 1]])
        array([[1, 1, 0, 1]])
        >>> tokens, states = problem.sample(batch=2, length=5, rng=np.random.default_rng(0))
        >>> bool((states == tokens.cumsum(axis=1) % 2).all())
        True
    """

    table: IntArray
    initial_state: int
    token_names: tuple[str, ...]
    state_names: tuple[str, ...]
    hard_fraction: float
    easy_tokens: tuple[int, ...]
    avoid: tuple[int, ...]
    name: str
    description: str
    target_names: tuple[str, ...]
    """The names of the states, which are the targets."""
    continues = True
    specified_as = "word_problem"
    specified_beside = ()

    @checked
    def __init__(
        self,
        table: ArrayLike,
        initial_state: int,
        token_names: Sequence[str],
        state_names: Sequence[str],
        *,
        hard_fraction: float = 1.0,
        easy_tokens: Sequence[int] | None = None,
        avoid: Sequence[int] = (),
        name: str = "word problem",
        description: str = "",
    ) -> None:
        steps = np.array(integer_array("table", table))
        if steps.shape != (len(state_names), len(token_names)) or not steps.size:
            raise InputError(
                f"table has shape {list(steps.shape)}; give one row for each of the "
                f"{len(state_names)} states and one column for each of the {len(token_names)} tokens"
            )
        check_different("token_names", token_names)
        check_different("state_names", state_names)
        state_count, vocabulary_size = steps.shape
        check_members("table", steps.ravel().tolist(), state_count)
        check_members("initial_state", [initial_state], state_count)
        check_members("avoid", avoid, state_count)
        if initial_state in avoid:
            raise InputError(f"avoid holds {state_names[initial_state]}, where words begin; leave it out")
        check_members("easy_tokens", easy_tokens or (), vocabulary_size)
        if easy_tokens is None:
            easy_tokens = np.flatnonzero((steps == np.arange(state_count)[:, None]).all(axis=0)).tolist()
        check_share("hard_fraction", hard_fraction)
        if hard_fraction < 1 and not easy_tokens:
            raise InputError(
                f"hard_fraction is {hard_fraction} but {shown(name)} has no identity among its tokens; "
                "leave it out or take a task whose tokens include the identity"
            )
        if hard_fraction < 1 and avoid:
            raise InputError(
                f"hard_fraction is {hard_fraction} but {shown(name)} avoids states; leave one of the two out"
            )
        steps.setflags(write=False)
        vars(self).update(table=steps, initial_state=int(initial_state), hard_fraction=float(hard_fraction))
        vars(self).update(token_names=tuple(token_names), easy_tokens=tuple(easy_tokens), avoid=tuple(avoid))
        vars(self).update(state_names=tuple(state_names), target_names=tuple(state_names))
        vars(self).update(name=name, description=description)

    @classmethod
    @checked
    def from_monoid(
        cls,
        monoid: Monoid,
        tokens: Iterable[int] | None = None,
        *,
        hard_fraction: float = 1.0,
        easy_tokens: Iterable[int] | None = None,
        name: str | None = None,
        description: str = "",
    ) -> "WordProblem":
        """Return the word problem of a monoid: the label after t tokens is their product, read left to right.

        Its elements are the states. Some of them may be ``tokens``, numbered in this order, and of these some
        ``easy_tokens``, the identity if left out. The rest is as for the class.

        Example:
            >>> from automata.monoids.groups import cyclic_group
            >>> clock = WordProblem.from_monoid(cyclic_group(12), tokens=[0, 5])
            >>> clock.states([[1, 1, 0, 1]])
            array([[ 5, 10, 10,  3]])
        """
        chosen = list(range(monoid.order) if tokens is None else tokens)
        easy = list(easy_tokens or ())
        check_members("tokens", chosen, monoid.order)
        for element in easy:
            if element not in chosen:
                raise InputError(f"easy_tokens holds {element}, which is not among the tokens; add it there")
        return cls(
            monoid.table[:, chosen],
            monoid.identity,
            [monoid.element_names[element] for element in chosen],
            monoid.element_names,
            hard_fraction=hard_fraction,
            easy_tokens=[chosen.index(element) for element in easy] or None,
            name=monoid.name if name is None else name,
            description=description,
        )

    @classmethod
    @checked
    def from_dfa(
        cls,
        dfa: DFA,
        *,
        hard_fraction: float = 1.0,
        avoid: Iterable[Hashable] | None = None,
        name: str = "automaton",
        description: str = "",
    ) -> "WordProblem":
        """Return the state tracking problem of an automaton: tokens are symbols, labels are states.

        A `UserWarning` tells of states that no sequence reaches, and of a task with a single sequence.

        ``avoid`` names the states that sampling keeps out of; none if empty. If None, those after which only
        finitely many words are accepted: random words of most languages end in a rejecting sink after a few
        letters, and every label from there on is the same. An automaton in which no state accepts has no
        language, and every word is drawn. The rest is as for the class. InputError if a state to avoid is
        none, or the language is finite and ``avoid`` is None.

        Example:
            >>> from automata.machines.named_dfas import dyck_dfa
            >>> brackets = WordProblem.from_dfa(dyck_dfa(max_depth=2), avoid=["error"])
            >>> tokens, states = brackets.sample(3, 100, np.random.default_rng(0))
            >>> [brackets.state_names[state] for state in np.unique(states)]
            ['', '(', '((']
        """
        if avoid is None:
            avoided = list(states_with_finite_future(dfa)) if dfa.accepting else []
            if avoided and not description:
                states = ", ".join(map(str, avoided))
                description = f"state of {name}, on beginnings of long words that it accepts; never {states}"
            if dfa.initial in avoided:
                raise InputError(
                    f"the language of {shown(name)} is finite: sequences end in a state that never changes; "
                    "give one with words of every size, or avoid=[] to draw every word"
                )
        else:
            avoided = list(avoid)
        for state in avoided:
            if state not in dfa.state_numbers:
                raise InputError(
                    f"avoid holds {state!r}, which is not a state of the automaton; leave it out"
                )
        problem = cls(
            dfa.table,
            dfa.initial_number,
            dfa.alphabet,
            [str(state) for state in dfa.states],
            hard_fraction=hard_fraction,
            avoid=[dfa.state_numbers[state] for state in avoided],
            name=name,
            description=description,
        )
        for sentence in problem._gaps():
            warn_caller(sentence, UserWarning)
        return problem

    def _gaps(self) -> Iterator[str]:
        """Say what a user may not have meant: states that no token leads to, and a single sequence."""
        name = shown(self.name)
        drawn = self.token_probabilities > 0
        reached = reachable_states(np.where(drawn, self.table, self.initial_state), self.initial_state)
        never = np.setdiff1d(np.arange(self.state_count), [*reached, *self.avoid])
        if never.size:
            some = ", ".join(self.state_names[state] for state in never[:5]) + ("…" if never[5:].size else "")
            yield f"no sequence of {name} reaches {never.size} of its states ({some}); leave them out"
        if (drawn[reached].sum(axis=1) == 1).all():
            yield f"{name} has a single sequence, one token in every state; give one with a choice"

    @property
    def never_entered(self) -> str:
        """A sentence on the states that sampling keeps out of; empty for none, and for a task of a name."""
        if not self.avoid or isinstance(self._specification, str):
            return ""
        count, names = len(self.avoid), ", ".join(self.state_names[state] for state in self.avoid[:5])
        return (
            f"sequences never enter {count} of {self.state_count} states ({names}{'…' * (count > 5)}), by "
            "default those from which only finitely many words are accepted; "
            'task_from(dfa, avoid=[]) keeps them, or "avoid": [] in a file of transitions'
        )

    @property
    def state_count(self) -> int:
        """The number of states, which are the labels."""
        return self.table.shape[0]

    @property
    def _told_sizes(self) -> str:
        return f"{self.vocabulary_size} tokens, {self.state_count} states"

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw sequences with the state after every token as its target; every target counts alike."""
        check_batch(batch_size, length, rng)
        tokens, states = self.sample(batch_size, length, rng, start)
        return Batch(tokens, states, np.ones(tokens.shape, np.float32), end=states[:, -1].copy())

    def start(self) -> int:
        """Return the number of the initial state."""
        return self.initial_state

    def machine(self) -> MealyMachine:
        """Return the machine whose answers are the labels."""
        return MealyMachine(self.table, self.table, self.initial_state)

    @cached_property
    def token_probabilities(self) -> FloatArray:
        """The probability of every token in every state, shape ``[states, tokens]``."""
        if self.avoid:
            choices, counts, _ = self._allowed_tokens
            allowed = np.zeros(self.table.shape)
            shares = (np.arange(self.vocabulary_size) < counts[:, None]) / counts[:, None]
            np.put_along_axis(allowed, choices, shares, axis=1)
            return allowed
        drawn = np.full(self.vocabulary_size, self.hard_fraction / self.vocabulary_size)
        if self.hard_fraction < 1:
            np.add.at(drawn, list(self.easy_tokens), (1 - self.hard_fraction) / len(self.easy_tokens))
        return np.tile(drawn, (self.state_count, 1))

    def state_probabilities(self, length: int) -> FloatArray:
        """Return the probability of every state after every token, shape ``[length, states]``, exactly.

        InputError if length is below 1, or too great for the memory.
        """
        check_at_least_one(length=length)
        check_memory(
            f"the distribution over {self.state_count} states after each of {length} tokens",
            2 * 8 * int(length) * self.state_count,  # callers put a row before them
            "give a shorter length",
        )
        current: FloatArray = np.zeros(self.state_count)
        current[self.initial_state] = 1
        rows: FloatArray = np.empty((length, self.state_count))
        for row in rows:
            moved = (current[:, None] * self.token_probabilities).ravel()
            row[:] = np.bincount(self.table.ravel(), moved, self.state_count)
            current = row
        return rows

    def target_shares(self, length: int, last: int | None = None) -> FloatArray:
        """Return the expected share of every state, exactly."""
        return np.asarray(self.state_probabilities(length)[last_places(length, last)].mean(axis=0))

    def _specified(self) -> dict[str, Any]:
        return {
            "table": self.table.tolist(),
            "initial_state": self.initial_state,
            "token_names": list(self.token_names),
            "state_names": list(self.state_names),
            "hard_fraction": self.hard_fraction,
            "easy_tokens": list(self.easy_tokens),
            "avoid": list(self.avoid),
            "name": self.name,
            "description": self.description,
        }

    def sample(
        self, batch: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> tuple[IntArray, IntArray]:
        """Draw sequences; return their tokens and the states after them, both int64 ``[batch, length]``.

        ``start`` is the state before the first token of each, ``[batch]``; the initial state if None.
        InputError if batch or length is below 1, or start holds something that is no state.
        """
        check_at_least_one(batch=batch, length=length)
        check_batch(batch, length, rng)
        before = starts(start, batch, self.initial_state, 0, self.state_count)
        if self.avoid:
            return self._sample_avoiding(before, length, rng)
        tokens = rng.integers(0, self.vocabulary_size, size=(batch, length))
        if self.hard_fraction < 1:
            is_hard = rng.random((batch, length)) < self.hard_fraction
            easy = np.array(self.easy_tokens)
            if len(easy) > 1:
                easy = easy[rng.integers(0, len(easy), size=(batch, length))]
            # easy + (token - easy)·is_hard in place: a masked copy takes ten times as long on a random mask
            tokens -= easy
            tokens *= is_hard
            tokens += easy
        return tokens, follow(self._by_token, self.state_count, tokens, before)

    def states(self, tokens: ArrayLike) -> IntArray:
        """Return the exact state after every token, for tokens of shape ``[..., length]``.

        InputError if there are no tokens, or one is outside the vocabulary (the message says where).
        """
        given = integer_array("tokens", tokens)
        if not given.ndim or not given.size:
            raise InputError(
                f"tokens has shape {list(given.shape)}; give [..., length] with a length of at least 1"
            )
        if given.min() < 0 or given.max() >= self.vocabulary_size:
            where = tuple(np.argwhere((given < 0) | (given >= self.vocabulary_size))[0].tolist())
            place = f"{where[-1]}" + "".join(f" of sequence {row}" for row in where[:-1])
            raise InputError(
                f"token {given[where]} at position {place} is not in the vocabulary of {shown(self.name)}; "
                f"give one in 0 … {self.vocabulary_size - 1}"
            )
        flat = given.reshape(-1, given.shape[-1])
        before = np.full(len(flat), self.initial_state)
        return follow(self._by_token, self.state_count, flat, before).reshape(given.shape)

    def _sample_avoiding(
        self, before: IntArray, length: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        choices, counts, multiple = self._allowed_tokens
        draws = rng.integers(0, multiple, size=(length, len(before)))
        tokens, states = np.empty_like(draws), np.empty_like(draws)
        current = before
        for position, draw in enumerate(draws):
            tokens[position] = choices[current, draw % counts[current]]
            current = self.table[current, tokens[position]]
            states[position] = current
        return np.ascontiguousarray(tokens.T), np.ascontiguousarray(states.T)

    @cached_property
    def _by_token(self) -> IntArray:
        """The table flattened so that entry token·state_count + state is the next state."""
        return self.table.T.ravel()

    @cached_property
    def _allowed_tokens(self) -> tuple[IntArray, IntArray, int]:
        """The tokens of each state that lead to no state to avoid.

        They come first, ``[states, tokens]``; then how many they are, ``[states]``, and the least common
        multiple N of these numbers. A uniform draw from 0 … N-1, modulo the number of a state, is uniform
        there. A state to avoid that has no allowed token has token 0.
        """
        is_avoided = np.isin(self.table, self.avoid)
        counts = (~is_avoided).sum(axis=1)
        for state in np.flatnonzero(counts == 0).tolist():
            if state not in self.avoid:
                raise InputError(
                    f"avoid leaves no token in state {self.state_names[state]!r}; avoid it as well"
                )
        counts = np.maximum(counts, 1)
        multiple = lcm(*np.unique(counts).tolist())
        # a draw below 2⁶³ is not uniform modulo every number; probabilities are then right to tokens / 2⁶³
        return np.argsort(is_avoided, axis=1, kind="stable"), counts, min(multiple, 2**63)


def follow(table_by_token: IntArray, state_count: int, tokens: IntArray, before: IntArray) -> IntArray:
    """Return the state after every token, ``[batch, length]``, from the states before, ``[batch]``.

    Entry token·state_count + state of ``table_by_token`` is the state after the token.
    """
    batch, length = tokens.shape
    states = np.empty_like(tokens, order="C")
    # a block of sequences at a time, position by position, in two buffers that stay in the cache
    rows = min(batch, _SEQUENCES_AT_ONCE)
    offsets = np.empty((length, rows), dtype=np.int64)
    following = np.empty_like(offsets)
    for start in range(0, batch, rows):
        block = tokens[start : start + rows].T
        width = block.shape[1]
        np.multiply(block, state_count, out=offsets[:, :width])
        current = before[start : start + rows]
        for offset, after in zip(offsets[:, :width], following[:, :width], strict=True):
            offset += current
            # every index is in range: "clip" only spares the checked copy that "raise" makes
            np.take(table_by_token, offset, out=after, mode="clip")
            current = after
        states[start : start + rows] = following[:, :width].T
    return states


def allowed_traces(task: Task, answers: Iterable[int]) -> DFA | None:
    """Return the automaton of the traces whose tokens the task can draw; None if it draws every word.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> allowed_traces(make_task("parity"), [0, 1]) is None
        True
        >>> allowed = allowed_traces(make_task("dyck-4"), [0])
        >>> allowed.accepts(["read 0", "answer 0", "read 1"]), allowed.accepts(["read 1"])
        (True, False)
    """
    if not (isinstance(task, WordProblem) and task.avoid):
        return None
    symbols = [read_symbol(token) for token in range(task.vocabulary_size)]
    symbols += [answer_symbol(answer) for answer in sorted(set(answers))]
    states = np.arange(task.state_count)
    table = np.full((task.state_count + 1, len(symbols)), task.state_count)  # the last state is the sink
    table[states] = states[:, None]  # an answer leaves the state as it is
    avoided = np.isin(task.table, task.avoid)
    table[states, : task.vocabulary_size] = np.where(avoided, task.state_count, task.table)
    return DFA.from_table(table, task.initial_state, states.tolist(), [*states.tolist(), SINK], symbols)
