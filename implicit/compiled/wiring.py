"""Which coordinate of the memory leads to which of the latent, and back: what the weights are made from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_memory
from automata.errors import InputError
from automata.machines.mealy import MealyMachine
from automata.monoids.cayley import IntArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Wiring:
    """An automaton as three tables of zeros and ones.

    The memory holds a code of the state before the token, the latent a code of what the token leads to.

    Attributes:
        reads: ``[latent, memory, tokens]``; which latents a coordinate of the memory switches on when the
            token is read. A latent is on if exactly one of the coordinates that are on leads to it.
        writes: ``[memory, latent]``; a coordinate of the memory is written if one of these latents is on.
        initial: ``[memory]``; the code of the initial state.
        answers: ``[classes, latent]``; the answer whose latents are on wins.

    Example:
        >>> wiring = Wiring.one_hot(MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]]))
        >>> wiring.memory, wiring.latent, wiring.tokens
        (2, 2, 2)
    """

    reads: BoolArray
    writes: BoolArray
    initial: BoolArray
    answers: BoolArray

    @property
    def memory(self) -> int:
        """The number of coordinates of the memory."""
        return self.reads.shape[1]

    @property
    def latent(self) -> int:
        """The number of coordinates of the latent that are used."""
        return self.reads.shape[0]

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.reads.shape[2]

    @classmethod
    def one_hot(cls, machine: MealyMachine, classes: int | None = None) -> "Wiring":
        """Return the wiring with one coordinate of the memory per state.

        The latent has one coordinate per *outcome*, a state with an answer, such as some token leads to; if
        the answer is the state, or follows from it, then there are as many as states that can be entered. The
        classes are the answers; the largest of the machine and those before it if None.

        Raises:
            InputError: if the machine gives more answers, or the tables do not fit into memory.

        Example:
            The answer says whether the state has changed, so there are four outcomes:

            >>> Wiring.one_hot(MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 1]])).latent
            3
        """
        table, answers = machine.table, machine.answers
        states, tokens = table.shape
        size = int(answers.max()) + 1 if classes is None else classes
        if size <= answers.max():
            raise InputError(f"classes is {size}, but the machine answers {answers.max()}; give more")
        outcomes, numbers = np.unique(table * size + answers, return_inverse=True)
        outcome: IntArray = numbers.reshape(table.shape)
        check_memory(
            f"an automaton of {states} states and {tokens} tokens with {len(outcomes)} outcomes",
            len(outcomes) * states * tokens,
            "compile a smaller one",
        )
        reads = np.zeros((len(outcomes), states, tokens), np.bool_)
        state, token = np.indices(table.shape)
        reads[outcome, state, token] = True
        return cls(
            reads,
            np.arange(states)[:, None] == outcomes // size,
            np.arange(states) == machine.initial,
            np.arange(size)[:, None] == outcomes % size,
        )
