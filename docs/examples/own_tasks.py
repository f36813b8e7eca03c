"""Tasks of one's own from Python: an exact object, and a class for what is no automaton."""

import numpy as np
from numpy.typing import ArrayLike

from automata.monoids.groups import dihedral_group
from automata.tasks.interface import Batch, Task
from automata.tasks.word_problem import WordProblem

square = WordProblem.from_monoid(dihedral_group(4), name="square")
"""The symmetries of a square, multiplied."""


class Repetition(Task):
    """Is the token the same as the one before? Nothing is asked after the first."""

    name = "repetition"
    description = "whether a token equals the one before it"
    token_names = ("a", "b", "c")
    target_names = ("other", "same")

    def batch(
        self,
        batch_size: int,
        length: int,
        rng: np.random.Generator,
        start: ArrayLike | None = None,  # these sequences do not go on in the next batch
    ) -> Batch:
        """Draw sequences: tokens, the answer after each, and its weight in the loss."""
        tokens = rng.integers(0, 3, (batch_size, length))
        targets, weights = np.zeros_like(tokens), np.ones(tokens.shape, np.float32)
        targets[:, 1:] = tokens[:, 1:] == tokens[:, :-1]
        weights[:, 0] = 0
        return Batch(tokens, targets, weights)
