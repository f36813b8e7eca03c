"""Transitions of many tokens at once: the pair (Φ, G) with what differs between tokens given as data.

A :class:`~theory.transition.Transition` has its token inside; one for each of 256 tokens would be 256 Python
calls. Here the token enters as an argument, such as its injection, so that ``torch.func.vmap`` maps one
evaluation over all positions. A position is any pair (state, token): those of a sequence, of several, or
states picked at random.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from automata.errors import InputError
from theory.transition import State, Transition

TokenInputs = dict[str, Tensor]
"""What a token contributes to Φ and G: named tensors, in a batch with a leading axis of positions."""


@dataclass(frozen=True, eq=False)
class TransitionBatch:
    """The pairs (Φ, G) of the tokens at T positions.

    Attributes:
        advance: (z, s, x) ↦ (Φ(z; s, x), G(z; s, x)) of one position: the next latent, of shape
            ``[latent_size]``, and the next state, with the names and shapes of s. No argument has an axis of
            positions. A pure function that ``torch.func`` can transform; in one piece, as Φ of an SSM
            contains G.
        inputs: x at every position, each entry ``[T, …]``.
        latent_size: the number of entries of z; 0 for a model without a fixed point.
        layer_states: for each layer the names of the state entries that Theorem 1 speaks of.
        damping: τ of the iteration that the model runs, in (0, 1].

    Raises:
        InputError: if there are no inputs, or not equally many of each.

    Example:
        h' = λ(x) h + x, without a latent, at three positions.

        >>> batch = TransitionBatch(
        ...     advance=lambda z, s, x: (z, {"h": x["decay"] * s["h"] + x["drive"]}),
        ...     inputs={"decay": torch.tensor([0.5, 0.5, 0.0]), "drive": torch.tensor([0.0, 1.0, 2.0])},
        ...     latent_size=0,
        ...     layer_states=(("h",),),
        ... )
        >>> len(batch), batch[1].state_update(torch.zeros(0), {"h": torch.ones(1)})
        (3, {'h': tensor([1.5000])})
        >>> batch.states_along({"h": torch.ones(1)}, torch.zeros(3, 0))["h"].T
        tensor([[1.0000, 0.5000, 1.2500]])
    """

    advance: Callable[[Tensor, State, TokenInputs], tuple[Tensor, State]]
    inputs: TokenInputs
    latent_size: int
    layer_states: tuple[tuple[str, ...], ...]
    damping: float = 1.0

    def __post_init__(self) -> None:
        counts = {name: entry.shape[0] if entry.ndim else 0 for name, entry in self.inputs.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            raise InputError(
                f"inputs has {counts} positions; give at least one entry, the same T ≥ 1 for each"
            )

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def __getitem__(self, position: int) -> Transition:
        return self.at({name: entry[position] for name, entry in self.inputs.items()})

    def at(self, inputs: TokenInputs) -> Transition:
        """Return (Φ, G) of the token with these inputs, without an axis of positions."""
        return Transition(
            self_map=partial(self._part, 0, inputs),
            state_update=partial(self._part, 1, inputs),
            latent_size=self.latent_size,
            layer_states=self.layer_states,
            damping=self.damping,
        )

    def _part(self, part: int, inputs: TokenInputs, latent: Tensor, state: State) -> Any:
        return self.advance(latent, state, inputs)[part]

    @torch.no_grad()
    def states_along(self, state: State, latents: Tensor) -> State:
        """Return the states before the tokens of one sequence, each entry ``[T, …]``, given its latents.

        Args:
            state: the state before the first token, without an axis of positions.
            latents: the fixed points z* of the sequence, ``[T, latent_size]``.
        """
        visited = []
        for position, latent in enumerate(latents):
            visited.append(state)
            state = self[position].state_update(latent, state)
        return {name: torch.stack([before[name] for before in visited]) for name in state}
