"""Every term of a checker decides: a claim that is just true is accepted, one that is just false is refused.

The checkers are given a model of which the exact answers are known, in one dimension: Φ(z; s) = A z + b s + e
with A anywhere in [a − r, a + r] and e in [−E, E], and G = g z + k s. The worst of these systems, A = a + r,
reaches every bound. So a claim that is false of it by 1e-7 has to be refused, which a checker without
the tail κ² / (1 − κ), the division by 1 − κ or any other term would not do.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat

from analysis.certificates.certificate import Automaton
from analysis.certificates.claims.lengths import CoverChecker, check_sets
from analysis.certificates.claims.theorem1 import PairChecker
from analysis.certificates.claims.words import WordsChecker
from tests.analysis.lines import BITS, is_accepted

JUST = 1e-7
"""FLINT keeps radii to 30 bits, rounded upward: a few dozen operations lose a few dozen parts in 10⁹."""
A, R, B, E, G, K = 0.375, 0.25, 0.75, 0.125, 1.5, 0.5  # exact in binary; κ = 0.4
V, D = 2.0, 3.0
WORST = 1 - A - R
"""1 − A of the slowest system."""
STEP = 0.5 + 0.5 * (A + R)
"""The damped step of that system."""


class Family:
    """The model as far as checkers ask it."""

    size = 1
    blocks = ("ssm.0",)
    damping = arb(0.5)
    head = arb_mat([[V], [0.0]])

    def __init__(self, gain: float = G, bend: float = 0.0) -> None:
        self.gain, self.bend = gain, bend
        self.layers = [self]

    def slope(self, z: arb) -> arb:
        """A over a box of latents; it varies by ``bend`` per unit, around the latents of the claims."""
        return arb(A, R) + self.bend * (z - z.mid())

    def state(self, numbers: list[arb]) -> dict[str, list[list[arb]]]:
        return {"ssm.0": [numbers]}

    def evaluate(self, token: int, z: list[arb], state: Any, sources: Any) -> tuple[Any, Any, Any]:
        """At z = 0, s = 0 the image is e, and everywhere the slopes are those of the family."""
        found = SimpleNamespace(latent=z[0], decay=([arb(K)], None))
        image = [z[0] + arb(0, E)]
        return image, [[self.slope(z[0]), arb(B)]], [found] if sources else found

    def evaluate_along(self, token: int, z: Any, state: Any, directions: Any) -> tuple[Any, Any, Any]:
        along = directions[0][0]
        return None, [[self.slope(z[0]), B * along]], [[arb(self.gain), K * along]]

    def entry_rates(self, found: Any, index: int, place: tuple[int, int], state: Any) -> list[arb]:
        """Along z and along h."""
        return [arb(self.gain), arb(K)]

    def following(self, found: Any, state: Any) -> dict[str, list[list[arb]]]:
        return {"ssm.0": [[self.gain * found.latent + K * state["ssm.0"][0][0]]]}

    def logits(self, latent: list[arb]) -> list[arb]:
        return [V * latent[0] + D, arb(0)]


# Theorem 1

CLAIM_ROOM = {"error": 0.9, "singular_value": WORST / 2, "norm": 0.99, "growth": 1.0, "entry": 50.0}
"""Claims that leave room, so that one can be tried alone; no product of fewer than four steps stretches."""


def check_claim(gain: float = G, power: int = 4, bend: float = 0.0, **changed: float) -> None:
    claimed = {**CLAIM_ROOM, **changed}
    checker = PairChecker.__new__(PairChecker)
    checker.model, checker.shapes = Family(gain, bend), {"ssm.0": (1, 1)}  # type: ignore[assignment]
    entry = claimed["entry"]
    claim: Any = SimpleNamespace(
        latent=np.zeros(1),
        radius=changed.get("radius", 1.0),
        error=claimed["error"],
        singular_value=claimed["singular_value"],
        contraction=SimpleNamespace(power=power, norm=claimed["norm"], growth=claimed["growth"]),
        entries=[(-100.0, entry) if gain > 0 else (entry, 100.0)],
    )
    pair: Any = SimpleNamespace(token=0, places=[(0, 0)])
    checker.check_claim(pair, claim, {"ssm.0": [[arb(0)]]}, "claim")


def test_an_error_may_be_as_large_as_the_radius_and_no_larger() -> None:
    assert is_accepted(lambda: check_claim(error=0.75, radius=0.75), "")
    assert not is_accepted(lambda: check_claim(error=0.75 + JUST, radius=0.75), "claim.error")


def test_powers_are_those_of_two() -> None:
    for power in (1, 2, 8):
        for factor in (1 + JUST, 1 - JUST):
            claim = partial(check_claim, power=power, norm=STEP**power * factor)
            assert is_accepted(claim, "claim.contraction.norm") is (factor > 1)
    for power in (3, 12, 2**21):
        claim = partial(check_claim, power=power)
        assert not is_accepted(claim, "claim.contraction.power")
    assert is_accepted(lambda: check_claim(power=2**20), "")


# Words of every length

METRIC, RADIUS, CENTRE, LATENT = 2.0, 0.5, -0.125, 0.25
REACH = RADIUS / METRIC
"""The distance of the states of the set from its centre."""
NEXT_METRIC, NEXT_CENTRE = 1.5, 0.25
STRAYED, OFF = 0.0625, 0.03125
"""The distance from the fixed point where the iteration may stop, and the error of the next state."""
STEP_ROOM = {"latent_radius": 5.0, "image": 50.0, "margin": 0.1}


def prepared(checker: Any, family: Family, **claim: Any) -> Any:
    checker.claim = SimpleNamespace(latent_error=STRAYED, step_error=OFF, **claim)
    checker.automaton = SimpleNamespace(table=[[0]], after=lambda word: 0)
    checker.model, checker.bits, checker.program = family, BITS, None
    checker.orbits = SimpleNamespace(check_member=lambda *_: None)
    return checker


def check_step(centre: float = CENTRE, radius: float = RADIUS, bend: float = 0.0, **changed: float) -> None:
    claimed = {**STEP_ROOM, **changed}
    checker = prepared(
        CoverChecker.__new__(CoverChecker),
        Family(bend=bend),
        labels=[0, 0],
        bundle_of=[[0], [0]],
        targets=[[1], [1]],
        centres=np.array([centre, NEXT_CENTRE]),
        metrics=np.array([METRIC, NEXT_METRIC]),
        radii=np.array([radius, claimed["image"]]),
        latents=np.array([LATENT, LATENT]),
        latent_radii=np.array([claimed["latent_radius"]] * 2),
        margin=claimed["margin"],
    )
    checker.check("set", 0)


def test_the_zero_state_lies_in_the_first_set_up_to_its_edge() -> None:
    edge = METRIC * abs(CENTRE)
    assert is_accepted(lambda: check_step(radius=edge * (1 + JUST)), "")
    assert not is_accepted(lambda: check_step(radius=edge * (1 - JUST)), "centres[0]")


# Words up to a length

WORD_ROOM = {"latent_radius": 5.0, "state_radius": 50.0, "margin": 0.1}


def check_word(bend: float = 0.0, **changed: float) -> None:
    claimed = {**WORD_ROOM, **changed}
    level = SimpleNamespace(
        latents=np.array([LATENT]),
        latent_radii=np.array([claimed["latent_radius"]]),
        states=np.array([G * LATENT]),
        state_radii=np.array([claimed["state_radius"]]),
        margins=np.array([claimed["margin"]]),
        bundle_of=[0],
    )
    checker = prepared(WordsChecker.__new__(WordsChecker), Family(bend=bend), levels=[level])
    checker.check("word", 0, 0)


SPREAD = (E + B * REACH) / WORST
IMAGE = (
    abs(G * LATENT + K * CENTRE - NEXT_CENTRE) + G * (E / WORST + STRAYED) + (K + G * B / WORST) * REACH + OFF
)
TRUTHS: list[tuple[Callable[..., None], str, float, str, int]] = [
    (check_claim, "error", E / WORST, "claim.error", 1),
    (check_claim, "singular_value", WORST, "claim.singular_value", -1),
    (check_claim, "norm", STEP**4, "claim.contraction.norm", 1),
    (check_claim, "entry", K + G * B / WORST, "claim.entries[0]", 1),
    (partial(check_claim, -G), "entry", K - G * B / WORST, "claim.entries[0]", 1),
    (check_step, "latent_radius", SPREAD + STRAYED, "latents[0][0]", 1),
    (check_step, "image", NEXT_METRIC * IMAGE, "targets[0][0]", 1),
    (check_step, "margin", V * (LATENT - SPREAD - STRAYED) + D, "margin", -1),
    (check_word, "latent_radius", E / WORST + STRAYED, "levels[0].latents[0]", 1),
    (check_word, "state_radius", G * (E / WORST + STRAYED) + OFF, "levels[0].state_radii[0]", 1),
    (check_word, "margin", V * (LATENT - E / WORST - STRAYED) + D, "levels[0].margins[0]", -1),
]


@pytest.mark.parametrize(("check", "name", "truth", "line", "weaker"), TRUTHS)
def test_a_claim_is_accepted_up_to_the_truth(
    check: Callable[..., None], name: str, truth: float, line: str, weaker: int
) -> None:
    for sign in (1, -1):
        claim = partial(check, **{name: truth * (1 + sign * weaker * JUST)})
        assert is_accepted(claim, line) is (sign == 1)


# Boxes of latents

ROOM = {
    "claim": {"error": 0.7, "singular_value": 1e-6, "norm": 1.0 - 1e-9, "entry": 1e9, "power": 1},
    "step": {"image": 1e9, "margin": -1e9},
    "word": {"state_radius": 1e9, "margin": 1e-3},
}


@pytest.mark.parametrize("kind", ["claim", "step", "word"])
def test_the_slopes_are_those_of_the_whole_box_of_latents(kind: str) -> None:
    """They vary with z, so that a box is wide enough at first, and then too wide for the map to contract.

    κ = (r + b ρ) / (1 − a) is below 1 for b ρ < 1 − a − r.
    """
    checks: dict[str, Callable[..., None]] = {"claim": check_claim, "step": check_step, "word": check_word}
    check = checks[kind]
    line = {"claim": "claim.radius", "step": "latent_radii[0][0]", "word": "levels[0].latent_radii[0]"}[kind]
    name = "radius" if kind == "claim" else "latent_radius"
    bend = 0.05
    edge = WORST / bend
    room: dict[str, Any] = ROOM[kind]
    assert not is_accepted(lambda: check(bend=bend, **room, **{name: edge * (1 + JUST)}), line)
    if kind == "claim":
        room = {**room, "error": 2.0}
    assert is_accepted(lambda: check(bend=bend, **room, **{name: 2.0}), "")


def pair_of(**changed: Any) -> Any:
    return SimpleNamespace(
        **{
            "token": 0,
            "places": [(0, 0)],
            "point": None,
            "elsewhere": None,
            "range": None,
            "state": {"ssm.0": np.zeros(1)},
            **changed,
        }
    )


def test_places_are_those_of_a_matrix_for_each_layer() -> None:
    checker = PairChecker.__new__(PairChecker)
    checker.model, checker.shapes = Family(), {"ssm.0": (1, 1)}  # type: ignore[assignment]
    assert is_accepted(lambda: checker._check_implicit(pair_of(), [], "pair"), "")
    for changed, line in (({"places": []}, "pair.places"), ({"places": [(0, 1)]}, "pair.places[0]")):
        assert not is_accepted(partial(checker._check_implicit, pair_of(**changed), [], "pair"), line)


PARITY = Automaton(initial_state=0, table=[[0, 1], [1, 0]])


def cover_claims(**changed: Any) -> Any:
    """Two sets of one number, with two tokens and latents of three numbers."""
    return SimpleNamespace(
        **{
            "labels": [0, 1],
            "targets": [[0, 1], [1, 0]],
            "bundle_of": [[0, 0], [0, 0]],
            "centres": np.zeros(2),
            "metrics": np.ones(2),
            "radii": np.ones(2),
            "latents": np.zeros(2 * 2 * 3),
            "latent_radii": np.ones(4),
            "margin": 0.5,
            **changed,
        }
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, ""),
        ({"labels": []}, "labels"),
        ({"labels": [1, 0]}, "labels"),
        ({"labels": [0, 2]}, "labels"),
        ({"targets": [[0, 1]]}, "targets"),
        ({"targets": [[0, 1], [1]]}, "targets"),
        ({"bundle_of": [[0, 0]]}, "bundle_of"),
        ({"bundle_of": [[0, 0], [0]]}, "bundle_of"),
        ({"centres": np.zeros(3)}, "centres"),
        ({"metrics": np.zeros(4)}, "metrics"),
        ({"radii": np.zeros(1)}, "radii"),
        ({"latents": np.zeros(6)}, "latents"),
        ({"latent_radii": np.zeros(2)}, "latent_radii"),
        ({"margin": 0.0}, "margin"),
    ],
    ids=str,
)
def test_the_arrays_of_a_cover_fit_its_sets(changed: dict[str, Any], line: str) -> None:
    rows, numbers = ("targets", "bundle_of"), {"latents": 6, "latent_radii": 2}
    accepted = is_accepted(lambda: check_sets(cover_claims(**changed), PARITY, 1, rows, numbers), line)
    assert accepted is (not changed)
