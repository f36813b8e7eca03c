"""Neither property depends on units, and couplings count that only whole distances show."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import dropout

from automata.errors import InputError
from tests.theory.transitions import (
    BOTH,
    MIXED,
    OWN,
    PLAIN,
    SIZE,
    W,
    explicit,
    implicit,
    random,
    two_layers,
)
from theory import Transition, check_theorem1

FIRST = torch.eye(SIZE, dtype=torch.float64)[0]
DECAY = torch.tensor([1e-12, 0.5, 0.9, 1.0], dtype=torch.float64)
MAPS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "a switch": (BOTH, lambda h: h / 2 + FIRST * (h[1] > 0.5)),
    "a switch of two": (BOTH, lambda h: h / 2 + FIRST * ((h[1] > 0) & (h[2] > 0))),
    "steps": (BOTH, lambda h: torch.round(8 * h.flip(0)) / 8),
    "flat up to a threshold": (BOTH, lambda h: h / 2 + torch.relu(h.flip(0) - 0.8)),
    "which is largest": (BOTH, lambda h: torch.nn.functional.one_hot(h.argmax(), SIZE).double()),
    "weak": (BOTH, lambda h: h / 2 + 1e-7 * FIRST * torch.tanh(h[1])),
    "a matrix": (MIXED, lambda h: W @ h),
    "a decay": (PLAIN, lambda h: DECAY * h + 1),
    "a coupling that cancels": (PLAIN, lambda h: (h + 8 * h.flip(0)) - 8 * h.flip(0)),
    "each its own step": (OWN, lambda h: h / 2 + (h > 0.2)),
}
UNITS = {
    "1": [1.0, 1.0, 1.0, 1.0],
    "1e-7 to 1e7": [1e-7, 1e7, 1.0, 1e3],
    "1e-12 to 1e12": [1e-12, 3.0, 1e12, 1e-9],
    "tiny": [1e-150, 1e-140, 1e-160, 1e-155],
}


@pytest.mark.parametrize("units", [UNITS["1"], UNITS["1e-12 to 1e12"], UNITS["tiny"]])
@pytest.mark.parametrize("name", MAPS)
def test_the_kind_is_that_of_the_map_in_all_units(name: str, units: list[float]) -> None:
    kind, function = MAPS[name]
    scale = torch.tensor(units, dtype=torch.float64)
    scaled = explicit(lambda h: scale * function(h / scale))
    states = [{"h": scale * random(SIZE, seed=seed)} for seed in range(4)]
    assert check_theorem1(scaled, states).kind.value == kind


@pytest.mark.parametrize("seed", [29, 136])
@pytest.mark.parametrize("units", ["1", "1e-7 to 1e7"])
def test_a_jump_that_a_secant_shows_is_followed_to_its_entry(units: str, seed: int) -> None:
    """No visited state lies beyond this switch: with these seeds only one of the other looks met it."""
    scale = torch.tensor(UNITS[units], dtype=torch.float64)
    scaled = explicit(lambda h: scale * MAPS["a switch"][1](h / scale))
    states = [{"h": scale * random(SIZE, seed=seed)} for seed in range(4)]
    assert check_theorem1(scaled, states, seed=seed).kind.value == BOTH


@pytest.mark.parametrize("coupling", [0.0, 1e-5], ids=[OWN, BOTH])
def test_the_kind_does_not_depend_on_the_units_of_a_latent(coupling: float) -> None:
    wide, scale = torch.tensor([UNITS["1e-12 to 1e12"], UNITS["1e-7 to 1e7"]], dtype=torch.float64)

    def self_map(z: Tensor, h: Tensor) -> Tensor:
        return wide * (torch.tanh(z / wide / 2 + h / scale) + coupling * torch.tanh((z / wide).roll(1)))

    pair = implicit(self_map, lambda z, h: h / 2 + scale * z / wide, SIZE)
    states = [{"h": scale * random(SIZE, seed=seed)} for seed in range(2)]
    assert check_theorem1(pair, states).kind.value == (BOTH if coupling else OWN)


def _jump(units: Tensor, latent_units: Tensor, *, chained: bool) -> Transition:
    """A latent that is zero up to a step, of which h' takes more; its own derivative is diagonal."""
    size, first = len(units), torch.eye(len(units), dtype=torch.float64)[0]

    def self_map(z: Tensor, h: Tensor) -> Tensor:
        rest, step = z / latent_units / 2, first * ((h / units)[-1] > 0.2)
        if not chained:
            return (rest + step) * latent_units
        inner, outer = rest.chunk(2)
        return torch.cat([inner + step[: size // 2], outer + inner]) * latent_units

    def update(z: Tensor, h: Tensor) -> Tensor:
        read = z / latent_units
        return (h / units / 2 + (torch.cat([read[size // 2 :]] * 2) if chained else read)) * units

    return implicit(self_map, update, size)


@pytest.mark.parametrize("chained", [False, True], ids=["one latent", "through another one"])
@pytest.mark.parametrize("wide", [False, True], ids=["units of 1", "units of 1e-8 to 1e8"])
def test_latents_at_rest_have_the_units_of_what_they_do(wide: bool, chained: bool) -> None:
    size = 40
    units = 10.0 ** (wide * (torch.arange(size, dtype=torch.float64) % 5 * 4 - 8))
    transition = _jump(units, units.flip(0), chained=chained)
    states = [{"h": units * random(size, seed=seed)} for seed in range(5)]
    for state, last in zip(states, (-2.8, 0.44, 0.84, 0.63, -0.95), strict=True):
        state["h"][-1] = last * units[-1]
    assert check_theorem1(transition, states, seed=1).kind.value == BOTH


HALF = explicit(lambda h: h / 2)
STILL: dict[str, tuple[Transition, list[Tensor], str]] = {
    "one entry": (HALF, [torch.tensor([first, 5.0]).double() for first in (1, 2)], PLAIN),
    "of two layers": (
        two_layers(lambda a: a / 2, lambda b: b / 2),
        [torch.tensor(each).double() for each in ([1.0, 2.0, 2.0, 3.0], [0.0, 2.0, 2.0, 1.0])],
        PLAIN,
    ),
    "between neighbouring floats": (
        HALF,
        [torch.tensor([1.0 + k * 2.0**-52], dtype=torch.float64) for k in (0, 1)],
        PLAIN,
    ),
    "too little for a float": (explicit(lambda h: 1e-170 * h), [k * 1e-160 * FIRST for k in (1, 2)], PLAIN),
}


@pytest.mark.parametrize(("transition", "vectors", "kind"), STILL.values(), ids=STILL)
def test_where_nothing_moves_nothing_is_seen(
    transition: Transition, vectors: list[Tensor], kind: str
) -> None:
    names = [name for layer in transition.layer_states for name in layer]
    states = [dict(zip(names, each.chunk(len(names)), strict=True)) for each in vectors]
    for seed in range(3):
        assert check_theorem1(transition, states, seed=seed).kind.value == kind


REFUSED = {
    "no numbers": (HALF, torch.zeros(0, dtype=torch.float64), "without a number"),
    "no names": (replace(HALF, layer_states=((),)), FIRST, "without a number"),
    "a name twice": (replace(HALF, layer_states=(("h", "h"),)), FIRST, "names an entry twice"),
    "dropout": (implicit(lambda z, h: dropout(z) / 4 + h, lambda z, h: h / 2 + z, SIZE), FIRST, "model.eval"),
    "too large to square": (HALF, 1e200 * FIRST, "size 1e\\+200, whose square is too large"),
    "in place": (explicit(lambda h: h.mul_(0.5)), FIRST, "state entry 'h' in place"),
}


@pytest.mark.parametrize(("transition", "h", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_checked_is_refused(transition: Transition, h: Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_theorem1(transition, [{"h": h}])
