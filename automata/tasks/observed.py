"""Tasks whose tokens move a hidden state and show parts of it: beliefs and answers by one Bayes filter.

| code               | symbol | meaning                                                                      |
|--------------------|--------|------------------------------------------------------------------------------|
| ``initial_belief`` | b₀     | distribution of the hidden state before the first token, ``[states]``        |
| ``observations``   | y_t    | ``[B, L]``; the number of what token t tells, given the tokens before it     |
| ``moved``          | N_y b  | the belief after y, not divided: stochastic, or 0 for states ruled out      |

Belief: b ← N_y b / 1ᵀN_y b, and 1ᵀN_y b = Pr(what is seen at t | all before) is 1 at an action.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_memory
from automata.errors import InputError
from automata.monoids.cayley import IntArray, integer_array
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.interface import Batch, Ceiling, Task, check_at_least_one, last_places

Probabilities = NDArray[np.float64]
NOTHING = -1
"""The number of an observation that tells nothing, and of a question where nothing is asked."""
_SEQUENCES_AT_ONCE = 64  # bounds the memory of the filter: 64 × 256 tokens × 120 states are 16 MiB
_ROUNDING = 1e-9  # of the sum of a column of a stochastic matrix, far above 2⁻⁵³ times its entries


class ObservedTask(Task):
    """A task about a hidden state. A subclass says what tokens tell and ask; the filter stands here.

    All that take tokens raise InputError where ``observations`` does, and the filter, with all that it
    answers, also where tokens contradict those before them.

    Attributes:
        automaton: the automaton behind the task; a subclass may set ``hidden_state_names`` and
            ``initial_belief`` instead.

    Example:
        What is known of a coin after it was turned over, perhaps, and looked at:

        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> from automata.tasks.partially_observed import PartiallyObserved
        >>> task = PartiallyObserved(noisy_parity(0.1))
        >>> tokens = [[task.token_names.index(name) for name in "1 1 parity =even 1".split()]]
        >>> task.beliefs(tokens)[0].round(3).tolist()
        [[0.1, 0.9], [0.82, 0.18], [0.82, 0.18], [1.0, 0.0], [0.1, 0.9]]
        >>> task.probabilities(tokens)[0].round(3).tolist()
        [[0.0, 0.0], [0.0, 0.0], [0.82, 0.18], [0.0, 0.0], [0.0, 0.0]]
    """

    automaton: ProbabilisticAutomaton

    @cached_property
    def hidden_state_names(self) -> tuple[str, ...]:
        """The name of every hidden state."""
        return self.automaton.states

    @cached_property
    def initial_belief(self) -> Probabilities:
        """b₀, the distribution of the hidden state before the first token, ``[states]``."""
        return self.automaton.initial

    @property
    def arrangements(self) -> IntArray | None:
        """The value of each variable in each hidden state, ``[states, n]``; None where that means nothing."""
        return None

    @abstractmethod
    def observations(self, tokens: ArrayLike) -> IntArray:
        """Return y, the number of what each token tells given those before it, int64 ``[batch, length]``.

        ``NOTHING`` where the belief stays as it is. InputError if tokens has another shape, holds a number
        that is no token, or breaks the grammar.
        """

    @abstractmethod
    def moved(self, beliefs: Probabilities, observation: int) -> Probabilities:
        """Return N_y b, linear in b and not divided by its sum, ``[rows, states]``."""

    @abstractmethod
    def questions(self, tokens: ArrayLike) -> IntArray:
        """Return the number of what is asked after each token, ``[batch, length]``; else ``NOTHING``."""

    @abstractmethod
    def answers(self, beliefs: Probabilities, question: int) -> Probabilities:
        """Return the distribution of the target that these beliefs give, ``[rows, output_size]``."""

    def revealed(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Return after which tokens something is revealed: N_y loses mass, ``[batch, length]``."""
        return self._where_observed(tokens, _loses_mass)

    def fully_revealed(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Return after which tokens a full reveal is complete, ``[batch, length]``.

        It is where one observation leaves one hidden state, whatever was believed before, and rules others
        out: an action that resets to one state, from wherever, reveals nothing. A task whose full reveal
        takes several tokens says itself where it is complete.
        """
        return self._where_observed(
            tokens, lambda images: _loses_mass(images) and np.count_nonzero(images.any(axis=0)) == 1
        )

    def filtered(self, tokens: ArrayLike) -> Iterator[tuple[Probabilities, Probabilities]]:
        """Go through the tokens: the belief after each, ``[batch, states]``, and its evidence, ``[batch]``.

        The belief is the filter's own array, changed by the next step: copy what is to be kept. The evidence
        is Pr(what token t tells | the tokens before it), 1 up to rounding at an action.
        """
        observed = self.observations(tokens)
        belief = np.tile(self.initial_belief, (len(observed), 1))
        for position, numbers in enumerate(observed.T):
            evidence = np.ones(len(belief))
            for number in _told(numbers):
                rows = np.flatnonzero(numbers == number)
                mass = self.moved(belief[rows], number)
                evidence[rows] = mass.sum(axis=1)
                if not evidence[rows].all():
                    raise self._contradiction(tokens, int(rows[evidence[rows] == 0][0]), position)
                belief[rows] = mass / evidence[rows, None]
            yield belief, evidence

    def beliefs(self, tokens: ArrayLike) -> Probabilities:
        """Return the exact posterior over the hidden state after every token, ``[batch, length, states]``.

        Tokens are sequences from their beginning, ``[batch, length]``, as everywhere here. InputError if
        there are more beliefs than memory holds: take ``filtered`` then.
        """
        given = integer_array("tokens", tokens)
        states = len(self.hidden_state_names)
        check_memory(
            f"the beliefs of {given.size} tokens over {states} states",
            8 * given.size * states,
            "give fewer sequences or shorter ones",
        )
        return np.stack([belief.copy() for belief, _ in self.filtered(given)], axis=1)

    def probabilities(self, tokens: ArrayLike) -> Probabilities:
        """Return the exact distribution of what is asked after every token, given the tokens up to it.

        Its shape is ``[batch, length, output_size]``; it is 0 throughout where nothing is asked.
        """
        asked = self.questions(tokens)
        answers = np.zeros((*asked.shape, self.output_size))
        for position, (belief, _) in enumerate(self.filtered(tokens)):
            answers[:, position] = self.predicted(belief, asked[:, position])
        return answers

    def predicted(self, beliefs: Probabilities, questions: IntArray) -> Probabilities:
        """Return the predicted answer of each belief ``[batch, states]``, ``[batch, output_size]``.

        It is 0 where the question, ``[batch]``, is ``NOTHING``.
        """
        answers = np.zeros((len(questions), self.output_size))
        for number in _told(questions):
            rows = np.flatnonzero(questions == number)
            answers[rows] = self.answers(beliefs[rows], number)
        return answers

    def log_evidence(self, tokens: ArrayLike) -> Probabilities:
        """Return log Pr(what token t tells | the tokens before it), in nats, ``[batch, length]``.

        It is 0 up to rounding where nothing is revealed. Its sum is the log mass of the linear filter, which
        leaves out the division.
        """
        return np.log(np.stack([evidence for _, evidence in self.filtered(tokens)], axis=1))

    def updated(
        self, beliefs: Probabilities, tokens: ArrayLike, positions: ArrayLike | None = None
    ) -> Probabilities:
        """Return N_y b / 1ᵀN_y b of given beliefs with one token each, ``[batch, places, states]``.

        Beliefs of the same shape are those before the tokens at ``positions``, ``[places]``, or at all if
        None, such as a model's. Where the token contradicts the belief there are zeros, which is no belief.
        InputError if beliefs has another shape.
        """
        observed = self.observations(tokens)
        if positions is not None:
            observed = observed[:, integer_array("positions", positions)]
        given = np.asarray(beliefs, dtype=np.float64)
        expected = (*observed.shape, len(self.hidden_state_names))
        if given.shape != expected:
            raise InputError(f"beliefs has shape {list(given.shape)}; give {list(expected)}")
        after = given.copy()
        for number in _told(observed):
            places = observed == number
            after[places] = self.moved(given[places], number)
        mass = after.sum(axis=-1, keepdims=True)
        return np.divide(after, mass, out=np.zeros_like(after), where=mass > 0)

    def ceiling(
        self,
        length: int,
        *,
        last: int | None = None,
        sequences: int = 1024,
        rng: np.random.Generator | None = None,
    ) -> Ceiling | None:
        """Return what the exact filter reaches, given the tokens only.

        The expectation over the hidden states given the tokens is exact (the probability of the likeliest
        target, and the entropy); that over the tokens is the mean of a sample.
        """
        check_at_least_one(length=length, last=1 if last is None else last, sequences=sequences)
        source = np.random.default_rng(0) if rng is None else rng
        places = last_places(length, last)
        right = lost = counted = 0.0
        for begin in range(0, sequences, _SEQUENCES_AT_ONCE):
            drawn = self.batch(min(_SEQUENCES_AT_ONCE, sequences - begin), length, source)
            asked = drawn.counted[:, places]
            filtered = self._uncertain(drawn)[:, places] & asked
            answers = self.probabilities(drawn.tokens)[:, places][filtered]
            counted += asked.sum()
            right += answers.max(axis=-1).sum() + (asked & ~filtered).sum()
            lost -= (answers * np.log(answers, out=np.zeros_like(answers), where=answers > 0)).sum()
        if not counted:
            raise InputError(
                f"length is {length}: nothing is asked in {sequences} sequences; give a greater one"
            )
        return Ceiling(float(right / counted), float(lost / counted))

    def _uncertain(self, batch: Batch) -> NDArray[np.bool_]:
        """Where the filter is needed to answer, ``[batch, length]``; the other targets are known."""
        return batch.counted

    def _where_observed(
        self, tokens: ArrayLike, is_such: Callable[[Probabilities], bool]
    ) -> NDArray[np.bool_]:
        """Where the images N_y e of all hidden states e, ``[states, states]``, are such."""
        observed = self.observations(tokens)
        unit = np.eye(len(self.hidden_state_names))
        return np.isin(observed, [n for n in _told(observed) if is_such(self.moved(unit, n))])

    def _contradiction(self, tokens: ArrayLike, sequence: int, position: int) -> InputError:
        token = self.token_names[np.asarray(tokens)[sequence, position]]
        return InputError(
            f"token {token!r} at position {position} of sequence {sequence} contradicts the tokens before "
            "it, which leave it probability 0; give a sequence that can occur"
        )


def _told(numbers: IntArray) -> list[int]:
    """The different numbers of observations or questions."""
    return [number for number in np.unique(numbers).tolist() if number != NOTHING]


def _loses_mass(images: Probabilities) -> bool:
    """Return whether N_y, given as the images of all hidden states, is the filter of a reveal."""
    return bool((images.sum(axis=1) < 1 - _ROUNDING).any())
