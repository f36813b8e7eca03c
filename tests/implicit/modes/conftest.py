"""A hand-made recurrence with two fixed points at most tokens, and tokens that have none."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from implicit.modes import Recurrence
from implicit.modes.recurrence import Inputs
from theory.transition import State

KEEP, SET_UP, SET_DOWN, SPIN = range(4)
DRIVE = torch.tensor([-0.1, 4.0, -4.0, 0.0], dtype=torch.float64)


def latch_map(z: Tensor, h: Tensor, drive: Tensor, spin: Tensor) -> Tensor:
    """Φ(z; h, x): a set token drives z to ±1, a keep token copies the sign of h, a spin token oscillates."""
    return torch.where(spin, 1 - z, torch.tanh(3 * z + 0.5 * h + drive))


def sweep(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
    before = torch.cat([state["h"][:, None], z[:, :-1]], dim=1)
    return latch_map(z, before, *inputs), {"h": z[:, -1]}


def advance(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
    return latch_map(z, state["h"], *inputs), {"h": z}


def states(z: Tensor, inputs: Inputs, state: State) -> State:
    return {"h": torch.cat([state["h"][:, None], z], dim=1)}


@pytest.fixture
def latch() -> Callable[[Tensor], Recurrence]:
    """Return the recurrence of tokens ``[batch, length]``, in float64 with one feature, h' = z.

    At a keep token z = tanh(3 z + h / 2 − 0.1) has a fixed point near 1 and one near −1. From z = 0 the right
    one is reached with h = ±1; with h = 0, as long as the token before has not been iterated, the one near
    −1, and it is not left any more.
    """

    def build(tokens: Tensor) -> Recurrence:
        inputs = [DRIVE[tokens][..., None], (tokens == SPIN)[..., None]]
        return Recurrence(inputs, {"h": DRIVE.new_zeros(len(tokens), 1)}, sweep, advance, states)

    return build
