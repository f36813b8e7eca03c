"""Many small random choices, fast."""

from collections.abc import Iterator

import numpy as np


class Choices:
    """Random choices, one after the other, from numbers that are drawn many at a time.

    Args:
        rng: the source of randomness; it is ahead of the choices made by up to 1023 numbers.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.fraction = _fractions(rng).__next__
        """Return a number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Return a number in 0 … bound − 1, each with probability 1/bound up to about 2^-53."""
        return int(self.fraction() * bound)

    def happens(self, probability: float) -> bool:
        """Return whether something of this probability happens."""
        return self.fraction() < probability

    def one_of(self, words: str | tuple[str, ...]) -> str:
        """Return one of the words or letters."""
        return words[int(self.fraction() * len(words))]


def _fractions(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(1024).tolist()
