"""A probabilistic automaton as a task: predict what the next reveal shows, or the hidden state.

The tokens of a sequence are those of three kinds, numbered in this order:

- an action, such as ``swap 1 2``, which moves the hidden state;
- a reveal, such as ``variable 1``, which asks what it shows;
- a value, such as ``=3``, which stands right after a reveal and answers it.

A sequence is made of actions, and of reveals with their values. Values of different reveals that have the
same name are the same token.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_different, check_share, checked
from automata.errors import InputError
from automata.monoids.cayley import IntArray, integer_array, token_array
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.interface import Batch, check_batch, starts
from automata.tasks.observed import NOTHING, ObservedTask, Probabilities

Target = Literal["reveals", "states"]
"""The question: the value of every reveal, or the hidden state after every token."""


class PartiallyObserved(ObservedTask):
    """Random actions and reveals of a probabilistic automaton.

    With ``target="reveals"`` the target of a reveal token is the value that follows it, and nothing is asked
    at other tokens. With ``target="states"`` the target of every token is the hidden state after it, which is
    drawn, so that even the best answer is often wrong: ``ceiling`` says what can be reached.

    Where a sequence goes on, ``end`` and ``start`` hold the hidden state, and whether a value is to come.
    InputError if the automaton lacks actions or reveals, the target is unknown, the probability is outside
    [0, 1] (or 0 where reveals are the target), or a token name is used twice.

    Args:
        automaton: with at least one action, and at least one reveal if those are the target.
        target: what is asked.
        reveal_probability: that a reveal comes next, uniformly one of them; else it is an action, uniformly
            one of those. Taken as 0 if the automaton has no reveal.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> task = PartiallyObserved(noisy_parity(0.1))
        >>> task.token_names, task.target_names
        (('0', '1', 'parity', '=even', '=odd'), ('even', 'odd'))
        >>> batch = task.batch(1, 7, np.random.default_rng(7))
        >>> " ".join(task.token_names[token] for token in batch.tokens[0])
        '1 1 parity =even 1 1 1'
        >>> batch.weights[0].tolist(), task.target_names[batch.targets[0, 2]]
        ([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 'even')
    """

    continues = True
    specified_as = "automaton"

    @checked
    def __init__(
        self,
        automaton: ProbabilisticAutomaton,
        target: Target = "reveals",
        reveal_probability: float = 0.25,
        *,
        name: str = "probabilistic automaton",
        description: str | None = None,
    ) -> None:
        if not automaton.actions:
            raise InputError("the automaton has no action; give it at least one")
        if target == "reveals" and not automaton.reveals:
            raise InputError("the automaton has no reveal to predict; give it one, or target 'states'")
        if not check_share("reveal_probability", reveal_probability) and target == "reveals":
            raise InputError("reveal_probability is 0; give a number above 0, or target 'states'")
        self.automaton = automaton
        self.target = target
        self.reveal_probability = float(reveal_probability)
        self.value_names = tuple(
            dict.fromkeys(value for reveal in automaton.reveals for value in automaton.value_names[reveal])
        )
        numbers = {value: number for number, value in enumerate(self.value_names)}
        shown = [
            [numbers[automaton.value_names[reveal][value]] for value in reading]
            for reveal, reading in zip(automaton.reveals, automaton.readings, strict=True)
        ]
        # [reveals, states]: the number, in value_names, of what a reveal shows
        self._shown = np.array(shown, dtype=np.int64).reshape(len(automaton.reveals), len(automaton.states))
        self.token_names = (*automaton.token_names, *(f"={value}" for value in self.value_names))
        check_different("values, actions and reveals together", self.token_names)
        self.target_names = self.value_names if target == "reveals" else automaton.states
        self.name = name
        asked = "the value of every reveal" if target == "reveals" else "the hidden state after every token"
        self.description = description or f"{asked} of {automaton!r}"

    def start(self) -> int:
        """Return -1: the hidden state is drawn from the initial distribution."""
        return -1

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw sequences; see the class for what is asked."""
        check_batch(batch_size, length, rng)
        actions, reveals, states = self._sizes
        before = starts(start, batch_size, -1, -1, states * (reveals + 1))
        pending = np.where(before < 0, 0, before // states)  # 0, or 1 + the reveal whose value comes next
        events = rng.integers(0, actions, size=(batch_size, length))
        if reveals:
            is_reveal = rng.random(events.shape) < self.reveal_probability
            events = np.where(is_reveal, actions + rng.integers(0, reveals, size=events.shape), events)
        else:
            is_reveal = np.zeros(events.shape, dtype=bool)
        hidden, _ = self.automaton.sample(events, rng, np.where(before < 0, -1, before % states))

        # an event takes one place, a reveal another for its value: what runs over the end is cut off
        first = (pending > 0)[:, None] + np.cumsum(1 + is_reveal, axis=1) - 1 - is_reveal
        tokens = np.zeros((batch_size, 2 * length + 1), dtype=np.int64)
        after = np.zeros_like(tokens)  # the hidden state after each token
        rows, columns = np.nonzero(is_reveal)
        np.put_along_axis(tokens, first, events, axis=1)
        np.put_along_axis(after, first, hidden, axis=1)
        seconds = first[rows, columns] + 1
        shown = self._shown[events[rows, columns] - actions, hidden[rows, columns]]
        tokens[rows, seconds] = actions + reveals + shown
        after[rows, seconds] = hidden[rows, columns]
        waiting = np.flatnonzero(pending)
        after[waiting, 0] = before[waiting] % states
        tokens[waiting, 0] = actions + reveals + self._shown[pending[waiting] - 1, after[waiting, 0]]

        tokens, after = tokens[:, :length].copy(), after[:, :length].copy()
        asks = (tokens >= actions) & (tokens < actions + reveals)
        asked = np.where(asks[:, -1], tokens[:, -1] - actions + 1, 0)
        end = asked * states + after[:, -1]
        if self.target == "states":
            return Batch(tokens, after, np.ones(tokens.shape, np.float32), end=end)
        targets = np.zeros_like(tokens)
        targets[asks] = self._shown[tokens[asks] - actions, after[asks]]
        return Batch(tokens, targets, asks.astype(np.float32), end=end)

    @property
    def arrangements(self) -> IntArray | None:
        """The value of each partial reveal in each state, if these are n values in all their orders of n.

        Then each such reveal is a variable, numbered in the order of the reveals, and so are the values.
        """
        partial = [not self.automaton.is_full(reveal) for reveal in self.automaton.reveals]
        variables = sum(partial)
        shown = self._shown[np.flatnonzero(partial)].T
        values = np.unique(shown)
        if not variables or len(values) != variables or len(np.unique(shown, axis=0)) != len(shown):
            return None
        held: IntArray = np.searchsorted(values, shown)
        return held if (np.sort(held, axis=1) == np.arange(variables)).all() else None

    def observations(self, tokens: ArrayLike) -> IntArray:
        """Return y: the actions by number, then every value of every reveal; see ``ObservedTask``.

        InputError if tokens has another shape, holds a number that is no token, or a value without a reveal
        before it.
        """
        actions, reveals, _ = self._sizes
        given = token_array(tokens, self.vocabulary_size)
        is_value = given >= actions + reveals
        asks = (given >= actions) & ~is_value
        if is_value[:, 0].any() or (asks[:, :-1] != is_value[:, 1:]).any():
            raise InputError("tokens holds a reveal without a value after it, or a value without a reveal")
        reveal = np.concatenate([np.zeros_like(given[:, :1]), given[:, :-1] - actions], axis=1)
        value = given - actions - reveals
        return np.where(
            asks, NOTHING, np.where(is_value, actions + reveal * len(self.value_names) + value, given)
        )

    def moved(self, beliefs: Probabilities, observation: int) -> Probabilities:
        """Return M_σ b for an action, and what is left of b where the reveal shows the value."""
        actions = len(self.automaton.actions)
        if observation < actions:
            return beliefs @ self.automaton.matrices[observation].T
        reveal, value = divmod(observation - actions, len(self.value_names))
        return beliefs * (self._shown[reveal] == value)

    def questions(self, tokens: ArrayLike) -> IntArray:
        """Return the number of the reveal at each reveal; 0, the hidden state, throughout for "states"."""
        actions, reveals, _ = self._sizes
        self.observations(tokens)  # refuses what is no sequence of this task
        given = integer_array("tokens", tokens)
        if self.target == "states":
            return np.zeros_like(given)
        return np.where((given >= actions) & (given < actions + reveals), given - actions, NOTHING)

    def answers(self, beliefs: Probabilities, question: int) -> Probabilities:
        """Return the beliefs themselves for "states", else the distribution of what the reveal shows."""
        return beliefs if self.target == "states" else beliefs @ self._shows[question]

    def target_shares(self, length: int, last: int | None = None) -> Probabilities:
        """Return the expected number of each target over the expected number of all, exactly."""
        actions, reveals, states = self._sizes
        chance = self.reveal_probability if reveals else 0.0
        free = self.automaton.initial  # [states], no value is pending
        pending = np.zeros((reveals, states))
        share = np.zeros(self.output_size)
        for position in range(length):
            moved = np.einsum("aij,j->i", self.automaton.matrices, free) * (1 - chance) / actions
            asked = np.tile(free * chance / max(reveals, 1), (reveals, 1))
            free, pending = moved + pending.sum(axis=0), asked
            if last is None or position >= length - last:
                if self.target == "states":
                    share += free + pending.sum(axis=0)
                else:
                    np.add.at(share, self._shown, pending)
        return share / share.sum()

    def _specified(self) -> dict[str, Any]:
        automaton = self.automaton
        return {
            "states": list(automaton.states),
            "initial": automaton.initial.tolist(),
            "actions": dict(zip(automaton.actions, automaton.matrices.tolist(), strict=True)),
            "reveals": {
                reveal: [automaton.value_names[reveal][value] for value in reading]
                for reveal, reading in zip(automaton.reveals, automaton.readings, strict=True)
            },
            "target": self.target,
            "reveal_probability": self.reveal_probability,
        }

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """The numbers of actions, reveals and hidden states."""
        return len(self.automaton.actions), len(self.automaton.reveals), len(self.automaton.states)

    @property
    def _shows(self) -> Probabilities:
        """Say whether a reveal shows a value in a state, as 0 and 1, shape ``[reveals, states, values]``."""
        return np.eye(len(self.value_names))[self._shown]
