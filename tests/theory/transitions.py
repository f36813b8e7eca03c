"""Hand-made transitions, and functions whose derivatives are claimed to be what they are not."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theory import State, Transition

Case = tuple[Transition, list[State], str, str]

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


def case(
    made: Transition | Callable[[Tensor], Tensor],
    kind: str,
    states: list[State] | None = None,
    verdict: str = "",
) -> Case:
    """A transition, or the update of one without a latent; random states and the verdict of its kind."""
    transition = made if isinstance(made, Transition) else explicit(made)
    expected = verdict or {BOTH: "holds", OPEN: "inconclusive"}.get(kind, "fails")
    return transition, random_states() if states is None else states, expected, kind


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


def equal_columns(directions: Tensor) -> tuple[int, int]:
    """Two entries that are the same in every direction, so that their difference is not seen."""
    columns = directions.mT.tolist()
    return next(
        (first, second)
        for second in range(len(columns))
        for first in range(second)
        if columns[first] == columns[second]
    )


def bumps(centres: list[Tensor], slopes: list[float], radius: float = 1e-2) -> Transition:
    """h/2 with another slope within a radius around each centre, and h/2 at every centre."""

    def update(h: Tensor) -> Tensor:
        result = h / 2
        for centre, slope in zip(centres, slopes, strict=True):
            off = h - centre
            result = result + slope * off * torch.exp(-((off / radius) ** 2).sum())
        return result

    return explicit(update)


def two_layers(first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]) -> Transition:
    return Transition(
        lambda z, s: z, lambda z, s: {"h": first(s["h"]), "g": second(s["g"])}, 0, (("h",), ("g",))
    )


def pairs(count: int = 4) -> list[State]:
    return [{"h": random(SIZE, seed=s), "g": random(SIZE, seed=s + 50)} for s in range(count)]


W = random(SIZE, SIZE, seed=9)
WIDE_W = random(WIDE, WIDE, seed=9) / WIDE**0.5
HALF = torch.eye(SIZE, dtype=torch.float64) / 2
TURN = 2 * math.pi * torch.ones(SIZE, dtype=torch.float64)
ROTATION = torch.block_diag(*(torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64) for _ in range(2)))
PERMUTATION = torch.eye(SIZE, dtype=torch.float64)[[1, 2, 3, 0]]


def fixed_signs(seed: int, count: int, size: int) -> Tensor:
    """The ±1 directions that a generator with a known seed gives."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(2, (count, size), generator=generator) * 2 - 1).double()
