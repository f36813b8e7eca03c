"""Windows of a row of tokens, and which of them each step reads."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from automata.errors import InputError


class Windows(Dataset[Tensor]):
    """A row of tokens cut into windows that overlap by one token, so that each token is predicted once.

    What is left at the end, shorter than a window, is left out.
    """

    def __init__(self, tokens: NDArray[np.integer], length: int, name: str = "the text") -> None:
        if len(tokens) < length:
            raise InputError(
                f"length is {length} and {name} has {len(tokens)} tokens; give a smaller length or more text"
            )
        self.tokens, self.length = tokens, length

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // (self.length - 1)

    def __getitem__(self, place: int) -> Tensor:
        begin = place * (self.length - 1)
        return torch.from_numpy(self.tokens[begin : begin + self.length].astype(np.int64))


class ShuffledWindows(Sampler[list[int]]):
    """The windows of every part of every step: a function of the seed and the step alone.

    Each pass over the text has an order of its own; none of its windows comes again before all were read.
    Steps count from 1; their sequences are those of all processes together.
    """

    drop_last = True

    def __init__(
        self, count: int, sequences: int, parts: int, seed: int, first_step: int, steps: int
    ) -> None:
        self.count, self.sequences, self.parts, self.seed = count, sequences, parts, seed
        self.first_step, self.steps = first_step, steps
        self.batch_size = sequences // parts

    def __len__(self) -> int:
        return max(0, self.steps - self.first_step + 1) * self.parts

    def __iter__(self) -> Iterator[list[int]]:
        order, known = np.empty(0, dtype=np.int64), -1
        for part in range((self.first_step - 1) * self.parts, self.steps * self.parts):
            batch = []
            for place in range(part * self.batch_size, (part + 1) * self.batch_size):
                epoch, offset = divmod(place, self.count)
                if epoch != known:
                    order, known = self._order(epoch), epoch
                batch.append(int(order[offset]))
            yield batch

    def _order(self, epoch: int) -> NDArray[np.int64]:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(epoch,))
        return np.random.default_rng(sequence).permutation(self.count)
