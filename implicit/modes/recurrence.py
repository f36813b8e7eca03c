"""The input of a mode, which a model provides, and its result."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from torch import Tensor

from implicit.fixed_point import AdjointSolution, Solution
from theory.transition import State

Inputs: TypeAlias = list[Tensor]
"""The inputs of a model at the tokens, without latents; each tensor ``[batch, length, …]``."""

Map: TypeAlias = Callable[[Tensor, Inputs, State], tuple[Tensor, State]]


@dataclass(frozen=True)
class Recurrence:
    """The self-map Φ and the state update G of a batch of sequences, over windows and over single tokens.

    Attributes:
        inputs: at all tokens.
        state: before the first token, each tensor ``[batch, …]``.
        sweep: Φ and G of consecutive tokens together: from latents ``[batch, tokens, features]``, the inputs
            there and the state before them to the images and the state after the last.
        advance: Φ and G of one token; latents ``[batch, features]``, inputs ``[batch, …]``.
        states: the state before every one of consecutive tokens and after the last, each tensor
            ``[batch, tokens + 1, …]``; takes what `sweep` takes.
        derivative: ∂zΦ of single tokens, their states held fixed, ``[batch, features, features]``; takes what
            `advance` takes. By automatic differentiation of that if None.
        adjoint: solves the adjoint system of all tokens, from z and g, ``[batch, tokens, features]``; returns
            None where it could not. By the factors of every token if None.
        as_built: enters the weights that the recurrence was made with, for what is evaluated later.

    Example:
        The running sum h' = h + z with Φ(z; h, x) = x / 2 + z / 2, whose fixed point is z = x.

        >>> import torch
        >>> recurrence = Recurrence(
        ...     inputs=[torch.tensor([[[1.0], [2.0]]])],
        ...     state={"h": torch.zeros(1, 1)},
        ...     sweep=lambda z, x, s: ((x[0] + z) / 2, {"h": s["h"] + z.sum(1)}),
        ...     advance=lambda z, x, s: ((x[0] + z) / 2, {"h": s["h"] + z}),
        ...     states=lambda z, x, s: {"h": torch.cat([s["h"][:, None], s["h"][:, None] + z.cumsum(1)], 1)},
        ... )
        >>> recurrence.sweep(torch.zeros(1, 2, 1), recurrence.inputs, recurrence.state)[0].flatten().tolist()
        [0.5, 1.0]
    """

    inputs: Inputs
    state: State
    sweep: Map
    advance: Map
    states: Callable[[Tensor, Inputs, State], State]
    derivative: Callable[[Tensor, Inputs, State], Tensor] | None = None
    adjoint: Callable[[Tensor, Tensor], AdjointSolution | None] | None = None
    as_built: Callable[[], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        """Keep the state as it is now: the backward pass reads it when the caller's may hold another."""
        object.__setattr__(self, "state", {**self.state})


class ModeResult(NamedTuple):
    """The result of a mode, and its cost.

    Attributes:
        solution: the fixed points, per token.
        state: after the last token.
        evaluations: as in `SequenceSolution`, ``[batch, tokens]``, int64.
    """

    solution: Solution
    state: State
    evaluations: Tensor
