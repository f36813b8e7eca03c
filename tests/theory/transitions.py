"""Hand-made transitions, and functions whose derivatives are claimed to be what they are not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theory import State, Transition

BOTH, MIXED, OWN, PLAIN, OPEN = (
    "non-diagonal and non-linear",
    "non-diagonal and linear",
    "diagonal and non-linear",
    "diagonal and linear",
    "undetermined",
)

SIZE = 4
WIDE = 12
"""More entries than are differentiated column by column."""


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def states_of(*vectors: Tensor) -> list[State]:
    return [{"h": vector} for vector in vectors]


def random_states(*shape: int, count: int = 4, name: str = "h") -> list[State]:
    return [{name: random(*(shape or (SIZE,)), seed=seed)} for seed in range(count)]


def along(direction: Tensor, *factors: float) -> list[State]:
    return states_of(*(factor * direction for factor in factors))


def explicit(update: Callable[[Tensor], Tensor]) -> Transition:
    """A transition of one block, without a latent."""
    return Transition(lambda z, s: z, lambda z, s: {"h": update(s["h"])}, 0, (("h",),))


def implicit(
    self_map: Callable[[Tensor, Tensor], Tensor], update: Callable[[Tensor, Tensor], Tensor], size: int
) -> Transition:
    """A transition of one block through a latent."""
    return Transition(
        lambda z, s: self_map(z, s["h"]), lambda z, s: {"h": update(z, s["h"])}, size, (("h",),)
    )


def self_map_only(
    self_map: Callable[[Tensor, State], Tensor], size: int = 1, damping: float = 1.0
) -> Transition:
    """Φ alone: the state stays as it is."""
    return Transition(self_map, lambda z, s: s, size, (("h",),), damping)


def claiming(value: Callable[[Tensor], Tensor], slope: Tensor) -> Callable[[Tensor], Tensor]:
    """The function ``value`` with a matrix for its derivative that it need not have."""

    class Claimed(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(vector: Tensor) -> Tensor:
            return value(vector)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return slope.mT @ gradients[0]

        @staticmethod
        def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
            return slope @ tangents[0]

    def apply(vector: Tensor) -> Tensor:
        result: Tensor = Claimed.apply(vector)
        return result

    return apply


def hidden_from(directions: Tensor, row: int = 0) -> Tensor:
    """A matrix with one row, which every one of the given directions is orthogonal to."""
    size = directions.shape[1]
    _, _, right = torch.linalg.svd(directions)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[row] = right[-1]
    return matrix


def entry(row: int, column: int, minus: int | None = None, size: int = SIZE) -> Tensor:
    """A matrix with ½ in one entry, and −½ in another one of the same row."""
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[row, column] = 0.5
    if minus is not None:
        matrix[row, minus] = -0.5
    return matrix


def two_layers(first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]) -> Transition:
    return Transition(
        lambda z, s: z, lambda z, s: {"h": first(s["h"]), "g": second(s["g"])}, 0, (("h",), ("g",))
    )


W = random(SIZE, SIZE, seed=9)
WIDE_W = random(WIDE, WIDE, seed=9) / WIDE**0.5


def make_ssm(
    seed: int = 0,
    *,
    size: int = 6,
    latent_size: int = 4,
    gain: float = 0.5,
    damping: float = 1.0,
    latent_to_update: bool = True,
    state_to_latent: bool = True,
) -> Transition:
    """Design Eq. 1-2 with small networks: Λ(z, x) ⊙ h + u(z, x) and f(z, h', x), x in a window too."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> Tensor:
        entries = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
        return scale * entries / columns**0.5

    forget, write, from_window = (matrix(size, columns) for columns in (latent_size, latent_size, 2))
    recur, read = matrix(latent_size, latent_size, gain), matrix(latent_size, size, gain)
    token = matrix(latent_size, 1)[:, 0]

    def state_update(z: Tensor, state: State) -> State:
        z = z if latent_to_update else torch.zeros_like(z)
        drive = from_window @ state["window"]
        decay = torch.sigmoid(1 + forget @ z + drive)
        h = decay * state["h"] + torch.tanh(write @ z + drive)
        return {"h": h, "window": torch.cat([state["window"][1:], token[:1]])}

    def self_map(z: Tensor, state: State) -> Tensor:
        h = state_update(z, state)["h"]
        return torch.tanh(recur @ z + (read @ h if state_to_latent else 0.0) + token)

    return Transition(self_map, state_update, latent_size, (("h",),), damping)


def make_states(size: int, count: int) -> list[State]:
    generator = torch.Generator().manual_seed(size)
    return [
        {
            name: torch.randn(entries, generator=generator, dtype=torch.float64)
            for name, entries in (("h", size), ("window", 2))
        }
        for _ in range(count)
    ]
