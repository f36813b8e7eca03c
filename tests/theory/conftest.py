"""Small implicit SSMs, made by hand as pairs (Φ, G), on which theory/ is tested."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from theory import State, Transition


@pytest.fixture
def make_ssm() -> Callable[..., Transition]:
    """Builds design Eq. 1-2 with small networks: Λ(z, x) ⊙ h + u(z, x) and f(z, h', x), x in a window too."""

    def make(
        seed: int = 0,
        *,
        size: int = 6,
        latent_size: int = 4,
        gain: float = 0.5,
        damping: float = 1.0,
        latent_to_update: bool = True,
        state_to_latent: bool = True,
    ) -> Transition:
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int, scale: float = 1.0) -> Tensor:
            entries = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return scale * entries / columns**0.5

        forget, write = matrix(size, latent_size), matrix(size, latent_size)
        from_window = matrix(size, 2)
        recur, read, token = (
            matrix(latent_size, latent_size, gain),
            matrix(latent_size, size, gain),
            matrix(latent_size, 1)[:, 0],
        )

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

    return make


@pytest.fixture
def make_states() -> Callable[[int, int], list[State]]:
    def make(size: int, count: int) -> list[State]:
        generator = torch.Generator().manual_seed(size)
        return [
            {
                "h": torch.randn(size, generator=generator, dtype=torch.float64),
                "window": torch.randn(2, generator=generator, dtype=torch.float64),
            }
            for _ in range(count)
        ]

    return make
