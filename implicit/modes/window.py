"""Consecutive tokens of some sequences of a batch, and the places where they begin."""

from dataclasses import dataclass

import torch
from torch import Tensor

from theory.transition import State


@dataclass(frozen=True)
class Place:
    """A token of every sequence, ``[batch]``, with the state before it; moved in place."""

    token: Tensor
    state: State

    @staticmethod
    def beginning(state: State, latents: Tensor) -> "Place":
        """Return the place before the first token of all sequences of ``[batch, tokens, features]``."""
        token = torch.zeros(len(latents), dtype=torch.long, device=latents.device)
        return Place(token, {name: tensor.clone() for name, tensor in state.items()})

    def of(self, sequences: Tensor) -> tuple[Tensor, State]:
        """Return token and state of some sequences, given by their numbers."""
        return self.token[sequences], {name: tensor[sequences] for name, tensor in self.state.items()}

    def move(self, sequences: Tensor, token: Tensor, state: State) -> None:
        """Move some sequences to a token with the state before it."""
        self.token[sequences] = token
        for name, tensor in state.items():
            self.state[name][sequences] = tensor


class Window:
    """Tokens first … last − 1 of some sequences, each from a place of its own, as one rectangle.

    Sequences are given by their numbers; windows end at ``length``, the tokens of all of them.

    Attributes:
        tokens: their positions, ``[sequences, width]``.
        inside: which places of the rectangle hold a token of the window, ``[sequences, width]``, bool; the
            others, all at the end of their row, repeat the last token of the sequence.
    """

    def __init__(self, sequences: Tensor, first: Tensor, last: Tensor, length: int) -> None:
        last = last.clamp(max=length)
        self.tokens = first[:, None] + torch.arange(int((last - first).max()), device=first.device)
        self.inside = self.tokens < last[:, None]
        self._sequences = sequences[:, None].expand_as(self.tokens)
        self._tokens = self.tokens.clamp(max=length - 1)

    def take(self, tensor: Tensor) -> Tensor:
        """Return what a tensor ``[batch, tokens, …]`` holds at the window, ``[sequences, width, …]``."""
        return tensor[self._sequences, self._tokens]

    def put(self, tensor: Tensor, values: Tensor, where: Tensor) -> None:
        """Write values ``[sequences, width, …]`` into a tensor, at those tokens of the window."""
        tensor[self._sequences[where], self._tokens[where]] = values[where]
