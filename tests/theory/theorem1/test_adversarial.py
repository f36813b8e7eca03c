"""The word that `check_theorem1` finds for transitions and derivatives that were made to mislead it.

Of each: whether it is said to hold, to fail, or left open; and the kind. What no finite number of evaluations
can decide is among them, with the word that is right for what was evaluated.
"""

import math
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
    OPEN,
    OWN,
    PLAIN,
    SIZE,
    WIDE,
    WIDE_W,
    W,
    along,
    claiming,
    entry,
    explicit,
    hidden_from,
    implicit,
    random,
    random_states,
    states_of,
    two_layers,
)
from theory import State, Transition, check_theorem1

Case = tuple[Transition, list[State], str, str]


def case(
    made: Transition | Callable[[Tensor], Tensor],
    kind: str,
    states: list[State] | None = None,
    verdict: str = "",
) -> Case:
    """A transition, or the update of one without a latent; random states and the verdict of its kind."""
    transition = made if isinstance(made, Transition) else explicit(made)
    expected = verdict or {BOTH: "holds", OPEN: "inconclusive"}.get(kind, "fails")
    return transition, random_states(count=2) if states is None else states, expected, kind


def bumps(centres: list[Tensor], slopes: list[float], radius: float = 1e-2) -> Transition:
    """h/2 with another slope within a radius around each centre, and h/2 at every centre."""

    def update(h: Tensor) -> Tensor:
        result = h / 2
        for centre, slope in zip(centres, slopes, strict=True):
            off = h - centre
            result = result + slope * off * torch.exp(-((off / radius) ** 2).sum())
        return result

    return explicit(update)


def pairs(count: int = 2) -> list[State]:
    return [{"h": random(SIZE, seed=s), "g": random(SIZE, seed=s + 50)} for s in range(count)]


def fixed_signs(seed: int, count: int, size: int) -> Tensor:
    """The ±1 directions that a generator with a known seed gives."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(2, (count, size), generator=generator) * 2 - 1).double()


def equal_columns(directions: Tensor) -> tuple[int, int]:
    """Two entries that are the same in every direction, so that their difference is not seen."""
    columns = directions.mT.tolist()
    return next(
        (first, second)
        for second in range(len(columns))
        for first in range(second)
        if columns[first] == columns[second]
    )


TURN = 2 * math.pi * torch.ones(SIZE, dtype=torch.float64)
HALF = torch.eye(SIZE, dtype=torch.float64) / 2
ROTATION = torch.block_diag(*(torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64) for _ in range(2)))
PERMUTATION = torch.eye(SIZE, dtype=torch.float64)[[1, 2, 3, 0]]


TRIPLE_AS_HALF = claiming(lambda v: 3 * v, HALF)


def wavy(h: Tensor) -> Tensor:
    return h / 2 + 1 - h.cos()


def nan_at(point: Tensor, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda h: torch.where((h == point).all(), torch.nan, 1.0) * function(h)


H = random(SIZE, seed=1)
LATTICE = [k * TURN for k in (0, 1, 2, -1, 3)]
CLUSTER = [TURN * k for k in range(2, 22)]
BADLY = torch.tensor([1e12, 1e12, 1.0, 1.0], dtype=torch.float64)
MANY = [random(SIZE, seed=s) for s in range(6)]

NON_LINEARITY: dict[str, Case] = {
    "tanh(W h) at ±h, ±h/10": case(lambda h: torch.tanh(W @ h), BOTH, along(H, 1.0, -1.0, 0.1, -0.1)),
    "W sin h at 0 and 2π": case(lambda h: W @ h.sin(), BOTH, along(TURN, 0.0, 1.0)),
    "W h/2 + V (1 − cos h) at 0 and 2π": case(lambda h: W @ wavy(h), BOTH, along(TURN, 0.0, 1.0)),
    "the same on a lattice of five": case(lambda h: W @ wavy(h), BOTH, states_of(*LATTICE)),
    "the same on a lattice of 21 and one nearest state off it": case(
        lambda h: W @ wavy(h), BOTH, states_of(0 * TURN, *CLUSTER, 0.3 * TURN)
    ),
    "a slope of its own at one state of six, every image on a line": case(
        bumps(MANY, [0.1, 0.1, 0.1, -0.3, 0.1, 0.1]), BOTH, states_of(*MANY)
    ),
    "two slopes, the farthest state has that of the first": case(
        lambda h: W @ torch.where(h.abs().sum() < 3, 2.0 * h, h),
        BOTH,
        along(torch.ones(SIZE).double(), 0.5, 3.0, 0.6, -3.1),
    ),
    "relu(W h), one state at its kink": case(
        lambda h: torch.relu(W @ h),
        BOTH,
        states_of(0 * H, *(random(SIZE, seed=s) for s in range(4))),
        "inconclusive",
    ),
    "a step in one entry beyond a threshold": case(lambda h: W @ h + (h > 0.9).double(), BOTH),
    "h/2 ± 1 by a hard switch": case(lambda h: h / 2 + h.sign(), OWN),
    "h/2 ± 1 by a hard switch, one state on the other side": case(
        lambda h: h / 2 + torch.where(h.sum() > 10, 1.0, -1.0),
        BOTH,
        states_of(*(random(SIZE, seed=s) for s in range(8)), 5 * torch.ones(SIZE).double()),
    ),
    "W h ± 10⁻¹² by a hard switch": case(lambda h: W @ h + 1e-12 * h.sign(), OPEN),
    "W h with a kink that no visited state is near": case(
        lambda h: W @ torch.where(h.sum() > 1e6, 2 * h, h), MIXED
    ),
    "W h + a ReLU that only states between the visited ones reach": case(
        lambda h: W @ (h + torch.relu(1.999 - h.abs().mean())),
        BOTH,
        along(torch.ones(SIZE).double(), 2.0, -2.0),
    ),
    "h/2 + 10⁻¹² tanh(W h)": case(lambda h: h / 2 + 1e-12 * torch.tanh(W @ h), OPEN),
    "W h + 10⁻¹² tanh h": case(lambda h: W @ h + 1e-12 * h.tanh(), OPEN),
    "10⁻¹² tanh(W h)": case(lambda h: 1e-12 * torch.tanh(W @ h), BOTH),
    "NaN at one visited state, affine elsewhere": case(
        nan_at(MANY[2], lambda h: W @ h), OPEN, states_of(*MANY[:4])
    ),
}

KINDS: dict[str, Case] = {
    "a rotation in planes, complex-diagonal": case(lambda h: ROTATION @ h, MIXED),
    "the same as a product of complex numbers": case(
        lambda h: torch.view_as_real(
            torch.view_as_complex(h.reshape(2, 2)) * torch.tensor(0.6 + 0.8j, dtype=torch.complex128)
        ).reshape(-1),
        MIXED,
    ),
    "a permutation, every row and column of one entry": case(lambda h: PERMUTATION @ h, MIXED),
    "a permutation and back": case(lambda h: PERMUTATION.mT @ (PERMUTATION @ h) / 2, PLAIN),
    "Q λ Qᵀ with equal λ: diagonal but for rounding": case(
        lambda h: torch.linalg.qr(W)[0] @ (torch.linalg.qr(W)[0].mT @ h) / 2, PLAIN
    ),
    "a coupling of 10⁻¹³": case(lambda h: h / 2 + 1e-13 * (W @ h), MIXED),
    "a coupling of 10⁻⁸, which differences resolve": case(lambda h: h.tanh() / 2 + 1e-8 * (W @ h), BOTH),
    "two blocks, 10¹² times apart, the small one tanh": case(
        lambda h: torch.cat([1e12 * h[:2], torch.tanh(W[:2, :2] @ h[2:])]), BOTH
    ),
    "two blocks, 10¹⁷ times apart, the small one tanh": case(
        lambda h: torch.cat([1e17 * h[:2], torch.tanh(W[:2, :2] @ h[2:])]), BOTH, random_states()
    ),
    "two blocks of states, 10¹² times apart": case(
        lambda h: torch.cat([h[:2] / 2, torch.tanh(W[:2, :2] @ h[2:])]),
        BOTH,
        states_of(*(BADLY * random(SIZE, seed=s) for s in range(4))),
    ),
    "float32 inside, affine": case(lambda h: (W.float() @ h.float()).double(), MIXED),
    "float32 inside, tanh": case(lambda h: torch.tanh(W.float() @ h.float()).double(), BOTH),
    "two layers, the second one linear": case(
        two_layers(lambda h: torch.tanh(W @ h), lambda g: W @ g), BOTH, pairs(), verdict="fails"
    ),
    "two layers, only the second one's derivative wrong": case(
        two_layers(lambda h: torch.tanh(W @ h), claiming(lambda g: torch.tanh(W @ g), 3 * W)),
        BOTH,
        pairs(),
        verdict="inconclusive",
    ),
    "two diagonal layers, only the second one's derivative wrong": case(
        two_layers(lambda h: h / 2, claiming(lambda g: g / 2, HALF + entry(0, 1))),
        OPEN,
        pairs(),
        verdict="fails",
    ),
    "a fixed point that repels, started on it": case(
        implicit(lambda z, h: 3 * z.tanh() + 0 * h, lambda z, h: torch.tanh(W @ h) + z, SIZE), OPEN
    ),
    "a repelling fixed point whose derivative claims to attract": case(
        implicit(lambda z, h: TRIPLE_AS_HALF(z) + 0 * h, lambda z, h: torch.tanh(W @ h) + z, SIZE),
        OPEN,
    ),
}


def wrong_root(h: Tensor) -> Tensor:
    """|h| as √(h²): its derivative at 0 is NaN, and its value is not."""
    return (h**2).sqrt() + h / 2


FOUR = fixed_signs(2, 4, WIDE)
LATENT_FOUR = fixed_signs(3, 4, WIDE)
TWINS = equal_columns(FOUR)
DIRECT_TWINS = entry(3, *equal_columns(fixed_signs(0, 3, WIDE)), WIDE)
LATENT_HIDDEN = hidden_from(torch.cat([FOUR @ WIDE_W.mT, LATENT_FOUR]))
HIDDEN = hidden_from(FOUR)

HALF_AS_W = claiming(lambda v: v / 2, W)
HALF_BUT_ONE = claiming(lambda v: v / 2, HALF - entry(0, 0))
W_AND_ONE = claiming(lambda v: W @ v, W + entry(1, 2))
NOTHING_AS_HIDDEN = claiming(lambda v: 0 * v, HIDDEN)
HIDDEN_AS_NOTHING = claiming(lambda v: HIDDEN @ v, 0 * WIDE_W)
NOTHING_AS_TWINS = claiming(lambda v: 0 * v, entry(3, *TWINS, WIDE))
NOTHING_IN_A_LATENT = claiming(lambda v: 0 * v, 0.3 * LATENT_HIDDEN)
W_TANH_DOUBLED = claiming(lambda v: W @ v.tanh(), 2 * W)

DERIVATIVES: dict[str, Case] = {
    "a diagonal map whose derivative claims one entry more": case(
        claiming(lambda h: h / 2, HALF + entry(0, 1)), OPEN
    ),
    "a coupling of 4 % that the derivative denies": case(
        claiming(lambda h: h / 2 + 0.02 * (W @ h), HALF), OPEN
    ),
    "a coupling of 10⁻⁷ that the derivative denies": case(
        claiming(lambda h: h / 2 + 1e-7 * (W @ h), HALF), OPEN
    ),
    "a slope of 10⁴ in tanh, whose differences are off by their curvature": case(
        lambda h: (1e2 * h).tanh() + h, OWN
    ),
    "tanh with the derivative of W tanh": case(lambda h: HALF_AS_W(h).tanh(), OPEN),
    "a claimed entry that the four ±1 directions of a known seed miss": case(
        lambda h: h.tanh() / 2 + NOTHING_AS_HIDDEN(h),
        OPEN,
        random_states(WIDE, count=2),
    ),
    "the reverse: a mixing map whose derivative claims to be diagonal": case(
        lambda h: h.tanh() / 2 + HIDDEN_AS_NOTHING(h),
        OPEN,
        random_states(WIDE, count=2),
    ),
    "two wrong entries of one row that cancel under ±1 half of the time": case(
        lambda h: h.tanh() / 2 + NOTHING_AS_TWINS(h),
        OPEN,
        random_states(WIDE, count=2),
    ),
    "a difference of two entries that ones and three signs of a known seed miss": case(
        lambda h: h.tanh() / 2 + DIRECT_TWINS @ h, BOTH, random_states(WIDE, count=2)
    ),
    "∂Φ/∂z wrong where neither seed's four ±1 directions look": case(
        implicit(
            lambda z, h: z / 2 + NOTHING_IN_A_LATENT(z) + WIDE_W @ h,
            lambda z, h: h / 2 + z.tanh(),
            WIDE,
        ),
        OPEN,
        random_states(WIDE, count=2),
    ),
    "∂Φ/∂s wrong in one entry": case(
        implicit(
            lambda z, h: z / 3 + W_AND_ONE(h),
            lambda z, h: h / 2 + z.tanh(),
            SIZE,
        ),
        OPEN,
    ),
    "∂G/∂z wrong": case(
        implicit(lambda z, h: (z / 3 + W @ h).tanh(), lambda z, h: h / 2 + HALF_AS_W(z), SIZE),
        OPEN,
    ),
    "∂G/∂z wrong in one entry of a diagonal": case(
        implicit(
            lambda z, h: (z / 3 + W @ h).tanh(),
            lambda z, h: h / 2 + HALF_BUT_ONE(z),
            SIZE,
        ),
        BOTH,
        verdict="inconclusive",
    ),
    "a derivative wrong at one state only": case(
        lambda h: torch.where((h == MANY[1]).all(), W_TANH_DOUBLED(h), W @ h.tanh()),
        BOTH,
        states_of(*MANY[:4]),
        verdict="inconclusive",
    ),
    "rounding to 10⁻³ with the derivative of the identity": case(
        claiming(lambda h: torch.round(1e3 * h) / 1e3, 2 * HALF), OPEN
    ),
    "h + 10⁻⁹ sin(10⁹ h): a derivative that no difference quotient has": case(
        lambda h: W @ (h + 1e-9 * (1e9 * h).sin()), OPEN
    ),
    "∂Φ/∂z is NaN at the fixed point": case(
        implicit(lambda z, h: (z**2).sqrt() / 2, lambda z, h: W @ h.tanh() + z, SIZE), OPEN
    ),
    "J is NaN at one state": case(
        lambda h: W @ wrong_root(h),
        BOTH,
        states_of(torch.zeros(SIZE).double(), *MANY[:3]),
        verdict="inconclusive",
    ),
}

TABLE = NON_LINEARITY | KINDS | DERIVATIVES


@pytest.mark.parametrize("name", TABLE)
def test_the_word_for(name: str) -> None:
    transition, states, verdict, kind = TABLE[name]
    report = check_theorem1(transition, states)
    assert (report.conclusions.value, report.kind.value) == (verdict, kind), report.kind_sentence


@pytest.mark.parametrize(("radius", "through_a_latent"), [(1e-2, False), (1e-3, False), (1e-3, True)])
def test_a_coupling_around_the_states_alone_is_found_by_every_seed(
    radius: float, through_a_latent: bool
) -> None:
    """Every J is diagonal and the same, and every image lies on a line."""
    states = MANY[: 2 if through_a_latent else 3]
    transition = bumps(states, [0.1] * len(states), radius)
    if through_a_latent:
        update = transition.state_update
        transition = implicit(lambda z, h: z / 2 + update(z, {"h": h})["h"] / 2, lambda z, _: z, SIZE)
    others = states_of(*states)
    for seed in range(1 if through_a_latent else 2):
        report = check_theorem1(
            transition, others[:1] if through_a_latent else others, alternatives=others, seed=seed
        )
        assert (report.conclusions.value, report.kind.value) == ("holds", BOTH)


def _switch(
    size: int, others: tuple[int, ...], how: Callable[..., Tensor]
) -> tuple[Transition, State, State]:
    """h'₁ gains 1/7 through the latent if others of h are above 0.1, which they are at one state only."""
    a, b = random(size, seed=3), random(size, seed=4)
    a[list(others)], b[list(others)] = -1.0, 1.0
    unit = torch.eye(size, dtype=torch.float64)[1]
    return (
        Transition(
            lambda z, s: 0.3 * z + how(s["h"][list(others)] > 0.1).double() * unit,
            lambda z, s: {"h": 0.5 * s["h"] + 0.1 * z},
            size,
            (("h",),),
        ),
        {"h": a},
        {"h": b},
    )


@pytest.mark.parametrize("size", [4, 16])
@pytest.mark.parametrize(
    ("others", "how"),
    [((2,), torch.all), ((2, 3), torch.all), ((0, 2, 3, -1), torch.all), ((0, 2, 3, -1), torch.any)],
    ids=["one", "both", "all of four", "any of four"],
)
def test_a_joint_condition_on_other_entries_couples_by_every_seed(
    size: int, others: tuple[int, ...], how: Callable[..., Tensor]
) -> None:
    transition, state, other = _switch(size, tuple(dict.fromkeys(i % size for i in others)), how)
    for seed in range(2):
        assert check_theorem1(transition, [state], alternatives=[other], seed=seed).kind.value == BOTH


def test_a_way_without_fixed_points_leaves_diagonal_open() -> None:
    """Φ has none where one of two entries alone has moved; both states have one."""

    def self_map(z: Tensor, s: State) -> Tensor:
        return z / 2 + (s["h"][2] - s["h"][3]).abs().sign() * (z / 2 + 1)

    pair = Transition(self_map, lambda z, s: {"h": s["h"] / 2 + 0.1 * z}, 6, (("h",),))
    a, b = random(6, seed=5), random(6, seed=6)
    a[2:4], b[2:4] = -1.0, 1.0
    found = check_theorem1(pair, [{"h": a}], alternatives=[{"h": b}], max_iterations=200)
    assert found.kind.value == "undetermined"


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


@pytest.mark.parametrize("units", [UNITS["1e-12 to 1e12"], UNITS["tiny"]])
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
    report = check_theorem1(pair, states[:1], alternatives=states)
    assert report.kind.value == (BOTH if coupling else OWN)


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


@pytest.mark.parametrize(
    ("wide", "chained"),
    [(False, False), (True, True)],
    ids=["one latent, units of 1", "through another one, units of 1e-8 to 1e8"],
)
def test_latents_at_rest_have_the_units_of_what_they_do(wide: bool, chained: bool) -> None:
    size = 40
    units = 10.0 ** (wide * (torch.arange(size, dtype=torch.float64) % 5 * 4 - 8))
    transition = _jump(units, units.flip(0), chained=chained)
    states = [{"h": units * random(size, seed=seed)} for seed in range(5)]
    for state, last in zip(states, (-2.8, 0.44, 0.84, 0.63, -0.95), strict=True):
        state["h"][-1] = last * units[-1]
    assert check_theorem1(transition, states[:2], alternatives=states, seed=1).kind.value == BOTH


HALVED = explicit(lambda h: h / 2)
STILL: dict[str, tuple[Transition, list[Tensor], str]] = {
    "one entry": (HALVED, [torch.tensor([first, 5.0]).double() for first in (1, 2)], PLAIN),
    "of two layers": (
        two_layers(lambda a: a / 2, lambda b: b / 2),
        [torch.tensor(each).double() for each in ([1.0, 2.0, 2.0, 3.0], [0.0, 2.0, 2.0, 1.0])],
        PLAIN,
    ),
    "between neighbouring floats": (
        HALVED,
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
    for seed in range(2):
        assert check_theorem1(transition, states, seed=seed).kind.value == kind


REFUSED = {
    "no numbers": (HALVED, torch.zeros(0, dtype=torch.float64), "without a number"),
    "no layers": (replace(HALVED, layer_states=()), FIRST, "layer_states is empty"),
    "no names": (replace(HALVED, layer_states=((),)), FIRST, "without a number"),
    "a name twice": (replace(HALVED, layer_states=(("h", "h"),)), FIRST, "names an entry twice"),
    "dropout": (implicit(lambda z, h: dropout(z) / 4 + h, lambda z, h: h / 2 + z, SIZE), FIRST, "model.eval"),
    "too large to square": (HALVED, 1e200 * FIRST, "size 1e\\+200, whose square is too large"),
    "in place": (explicit(lambda h: h.mul_(0.5)), FIRST, "state entry 'h' in place"),
}


@pytest.mark.parametrize(("transition", "h", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_checked_is_refused(transition: Transition, h: Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_theorem1(transition, [{"h": h}])
