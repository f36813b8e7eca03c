"""Products of small matrices modulo a number, read entry by entry."""

import numpy as np
from numpy.typing import ArrayLike

from automata.checks import check_integer, checked
from automata.errors import InputError
from automata.tasks.interface import Batch, Task


class MatrixProducts(Task):
    """Reads matrices row by row, and after each is asked for an entry of the product so far.

    It is the entry in the first row and column. Matrices are ``size`` × ``size``, entries uniform in 0 …
    modulus − 1; the product begins with the identity and grows to the right. InputError if the size is not
    in 1 … 8, or the modulus not in 2 … 64.

    Source:
        Merrill et al. 2026, "Why Are Linear RNNs More Parallelizable?", arXiv 2603.03612, name products
        of 3 × 3 matrices; how they are written and what is asked is ours.

    Example:
        >>> task = MatrixProducts(size=2, modulus=3)
        >>> batch = task.batch(1, 8, np.random.default_rng(0))
        >>> first, second = batch.tokens[0].reshape(2, 2, 2)
        >>> batch.targets[0, [3, 7]].tolist() == [first[0, 0], (first @ second)[0, 0] % 3]
        True
    """

    specified_as, specified_by = "matrices", ("size", "modulus")
    _answers_are_certain = True

    @checked
    def __init__(
        self, size: int = 3, modulus: int = 5, *, name: str = "matrices", description: str | None = None
    ) -> None:
        self.size = check_integer("size", size, 1, most=8)
        self.modulus = check_integer("modulus", modulus, 2, most=64)
        self.token_names = self.target_names = tuple(map(str, range(self.modulus)))
        self.name = name
        self.description = description or (
            f"first entry of the product of {size} by {size} matrices modulo {modulus}, after each of them"
        )

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw matrices; InputError if a sequence is shorter than one, or a start is given."""
        self.check_fresh(batch_size, length, rng, start)
        entries = self.size**2
        if length < entries:
            raise InputError(
                f"length is {length}, and a matrix has {entries} entries; give at least {entries}"
            )
        tokens = rng.integers(0, self.modulus, (batch_size, length))
        targets, weights = np.zeros_like(tokens), np.zeros((batch_size, length), np.float32)
        product = np.broadcast_to(np.eye(self.size, dtype=np.int64), (batch_size, self.size, self.size))
        for first in range(0, length - entries + 1, entries):
            factor = tokens[:, first : first + entries].reshape(product.shape)
            product = product @ factor % self.modulus
            targets[:, first + entries - 1], weights[:, first + entries - 1] = product[:, 0, 0], 1
        return Batch(tokens, targets, weights)
