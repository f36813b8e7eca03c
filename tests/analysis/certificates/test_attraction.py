"""Fixed points that the iteration does not find, in certificates: beside the right one, and in place of it.

The model is an untrained one, of seed 3: beside one h there is a fixed point that the iteration from zero
tends to, another that attracts but is not reached, and one that repels.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, fmpq

from analysis.certificates.arb.linear import precision, row_sum
from analysis.certificates.arb.models import ArbModel
from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.claims.theorem1 import (
    NARROW,
    Orbit,
    PairChecker,
    Point,
    Range,
    damped_orbit,
    summarise,
)
from analysis.certificates.proofs.theorem1 import Points, prove_points, prove_ranges, visited_points
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from implicit.runs.loading import Run
from tests.analysis.lines import BITS, ONE_PROCESS, Content, is_accepted, line_of
from tests.small_models import untrained
from theory.rigorous.enclosure import refine

Found = dict[str, Point]
PAIR = 3
SETTINGS: dict[str, Any] = {"states": 4, "sequences": 4, "length": 8}


@pytest.fixture(scope="module")
def run() -> Run:
    return untrained("implicit-mamba2", seed=3, d_model=4, d_state=2, head_size=4)


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    certificate = certify(run, **SETTINGS)
    assert certificate.only.summary["orbit"] == 4
    return certificate.model_dump(mode="json")


def points_of(run: Run) -> Points:
    batch = sample_batch(run.task, SETTINGS["sequences"], SETTINGS["length"], seed=0)
    visited = visited_states(in_double_precision(run.model), batch.tokens, SETTINGS["states"])
    return visited_points(as_implicit(run), visited)


@pytest.fixture(scope="module")
def fixed_points(run: Run) -> Found:
    """The fixed points beside the h of one pair, by their kind."""
    points = points_of(run)[np.full(3, PAIR)]
    starts = np.random.default_rng(0).normal(size=(40, 4))[[1, 25, 34]]  # most end at none
    latents = refine(points.transitions(), points.boxes(np.zeros(3)), starts, 60)
    found = {}
    for point in prove_points(Points(points.model, points.tokens, points.state, latents, points.places)):
        if point is not None:
            kind = "reached" if point.attracts else "repels" if point.contraction is None else "attracts"
            found[kind] = point
    assert sorted(found) == ["attracts", "reached", "repels"]
    return found


def forged(content: Content, **parts: Any) -> Content:
    """The certificate with other parts of a pair, the counts that its pairs show then, and a new seal."""
    changed = copy.deepcopy(content)
    changed["claims"][0]["pairs"][PAIR] |= parts
    return sealed(changed, **summarise(parse_certificate(changed).only.pairs))


def sealed(content: Content, **counts: int) -> Content:
    content["claims"][0]["summary"] |= counts
    content["sha256"] = seal(content)
    return content


def refusal(content: Content, run: Run) -> str | None:
    try:
        check_certificate(parse_certificate(content), run, ONE_PROCESS)
    except RefusedError as refused:
        return line_of(refused).removeprefix(f"pairs[{PAIR}].")
    return None


def as_json(point: Point, **changed: Any) -> Content:
    return point.model_copy(update=changed).model_dump(mode="json")


def test_a_second_fixed_point_of_the_same_h_is_not_another_state(
    content: Content, run: Run, fixed_points: Found
) -> None:
    """Their entries differ, as those of two branches do: nothing follows for the one transition there is."""
    # nor is it a fixed point beside the h of another pair
    for kind, pair, line in (("repels", PAIR, "elsewhere.pair"), ("attracts", 0, "elsewhere.error")):
        elsewhere = {**as_json(fixed_points[kind]), "pair": pair}
        assert refusal(forged(content, elsewhere=elsewhere), run) == line


def test_a_box_of_states_is_about_the_fixed_point_that_is_reached(
    content: Content, run: Run, fixed_points: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that is claimed over the box is proved, of another fixed point beside all its h."""
    there = replace(points_of(run)[np.array([PAIR])], latents=fixed_points["attracts"].latent[None])
    (claim,), (radius,) = prove_ranges(there)
    assert claim is not None
    point = parse_certificate(content).only.pairs[PAIR].point
    assert np.abs(claim.latent - point.latent).max() > claim.radius
    box = Range(**dict(claim), state_radius=float(radius))
    changed = forged(content, range=box.model_dump(mode="json"))
    assert refusal(changed, run) == "range.latent"
    monkeypatch.setattr(PairChecker, "_check_same_fixed_point", lambda *_: None)
    assert refusal(changed, run) is None  # so that nothing else refuses it


def test_a_fixed_point_that_is_not_reached_counts_for_nothing(
    content: Content, run: Run, fixed_points: Found
) -> None:
    honest = content["claims"][0]["summary"]
    for kind in ("repels", "attracts"):
        point = as_json(fixed_points[kind])
        # the box of h would stay claimed of a fixed point that the pair no longer speaks of
        assert refusal(forged(content, point=point), run) == "range"
        changed = forged(content, point=point, range=None)
        assert refusal(changed, run) is None  # what it claims is true: there is a fixed point
        for name in ("orbit", "non_diagonal", "non_linear"):
            assert changed["claims"][0]["summary"][name] == honest[name] - 1
            assert refusal(sealed(copy.deepcopy(changed), **{name: honest[name]}), run) == f"summary.{name}"


def test_an_orbit_that_ends_elsewhere_is_refused(content: Content, run: Run, fixed_points: Found) -> None:
    """To the fixed point that attracts: with the steps and distance of the true one, of none, of many."""
    point, reached = fixed_points["attracts"], fixed_points["reached"].orbit
    assert point.contraction is not None
    assert reached is not None
    near = (point.radius - point.error) / point.contraction.growth / 1.01 - point.error
    for steps, distance in ((0, near), (1, near), (reached.iterations, near), (512, near), (512, 10.0)):
        orbit = Orbit(iterations=steps, distance=distance)
        assert refusal(forged(content, point=as_json(point, orbit=orbit)), run) == "point.orbit.distance"


def test_an_orbit_to_a_fixed_point_that_repels_is_refused(
    content: Content, run: Run, fixed_points: Found
) -> None:
    point = as_json(fixed_points["repels"])
    point["orbit"] = {"iterations": 40, "distance": (fixed_points["repels"].radius / 4).hex()}
    assert refusal(forged(content, point=point), run) == "point.orbit"
    point["contraction"] = {"power": 1, "norm": (0.5).hex(), "growth": (1.0).hex()}
    assert refusal(forged(content, point=point), run) == "point.contraction.norm"


# The terms of the check, each of which decides
JUST = 1e-7


class Halving:
    """z ← z/2 + 1, for which z_K = 2 − 2^{1−K}."""

    damping = arb(1)
    size = 1

    def state(self, numbers: list[arb]) -> list[arb]:
        return numbers

    def image(self, token: int, z: list[arb], state: Any) -> list[arb]:
        return [z[0] / 2 + 1]


class HalvingChecker(PairChecker):
    """The model is exact at every precision."""

    def model_at(self, bits: int) -> ArbModel:
        return self.model


def check_orbit(
    steps: int = 5,
    distance: float = 0.1,
    error: float = 0.01,
    growth: float = 1.5,
    radius: float = 1.0,
    latent: float = 2.0,
) -> None:
    checker = HalvingChecker.__new__(HalvingChecker)
    checker.model, checker.shapes, checker.bits = Halving(), {}, BITS  # type: ignore[assignment]
    point: Any = SimpleNamespace(
        latent=np.array([latent]),
        radius=radius,
        error=error,
        contraction=SimpleNamespace(growth=growth),
        orbit=SimpleNamespace(iterations=steps, distance=distance),
    )
    checker._check_orbit(0, point, {}, "claim")


@pytest.mark.parametrize("latent", [2.0, 1.5])
def test_the_distance_is_that_after_so_many_steps(latent: float) -> None:
    for steps in range(1, 8):
        distance = abs(2.0 - 2.0 ** (1 - steps) - latent)
        for sign in (1, -1):
            claim = partial(
                check_orbit, steps=steps, latent=latent, distance=distance + sign * JUST, radius=9.0
            )
            assert is_accepted(claim, "claim.orbit.distance") is (sign == 1)


def test_the_distance_is_within_what_converges() -> None:
    for error, growth, distance in ((0.01, 1.5, 0.1), (0.0, 4.0, 0.07), (0.25, 1.0, 0.5)):
        least = growth * (distance + error) + error
        for sign in (1, -1):
            claim = partial(
                check_orbit, error=error, growth=growth, distance=distance, radius=least * (1 + sign * JUST)
            )
            assert is_accepted(claim, "claim.orbit.distance") is (sign == 1)


def test_orbits_are_not_longer_than_can_be_checked() -> None:
    assert is_accepted(partial(check_orbit, steps=512), "")
    assert not is_accepted(partial(check_orbit, steps=513), "claim.orbit.iterations")


def test_the_growth_is_that_of_all_lower_powers() -> None:
    """The step stretches a hundredfold before it contracts."""
    matrix = [[arb(0.5), arb(100)], [arb(0), arb(0.5)]]
    checker = PairChecker.__new__(PairChecker)
    checker.model = Halving()  # type: ignore[assignment]
    with precision(BITS):
        step = arb_mat(matrix)
        norms = [row_sum(step**power) for power in (1, 2, 4, 8)]
        least = float(norms[0] * norms[1] * norms[2] * norms[3])
    for sign in (1, -1):
        contraction: Any = SimpleNamespace(power=16, norm=0.99, growth=least * (1 + sign * JUST))
        claim = partial(checker._check_contraction, arb_mat(matrix), contraction, "claim.contraction")
        assert is_accepted(claim, "claim.contraction.growth") is (sign == 1)


Vector = list[arb]


def rational(image: Callable[[list[Fraction]], list[Fraction]], tau: Fraction, steps: int) -> list[Fraction]:
    z = [Fraction(0), Fraction(0)]
    for _ in range(steps):
        z = [(1 - tau) * x + tau * y for x, y in zip(z, image(z), strict=True)]
    return z


@pytest.mark.parametrize("tau", [1.0, 0.8, 0.25])
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_the_orbit_holds_the_rational_one(tau: float, steps: int) -> None:
    def image(z: list[Any]) -> list[Any]:
        return [z[0] * z[1] / 3 + 1, z[0] / 2 - z[1] * z[1] / 5 + z[0] * z[0] / 7]

    found = damped_orbit(lambda _: (image, arb(tau)), 2, steps, BITS)
    expected = rational(image, Fraction(tau), steps)
    for ours, exact in zip(found, expected, strict=True):
        with precision(4 * BITS):
            number = arb(fmpq(exact.numerator, exact.denominator))
        assert ours.overlaps(number)
        assert ours.rad() < NARROW
    if steps:
        # one step more or fewer is another number
        other = rational(image, Fraction(tau), steps - 1)
        assert abs(float(found[0]) - float(other[0])) > 1e-6 or abs(float(found[1]) - float(other[1])) > 1e-6


def test_precision_grows_until_the_orbit_is_known() -> None:
    """z/3 + 1, written so that every step widens the balls by twenty bits: 3/2 (1 − 3⁻ⁿ)."""
    used: list[int] = []

    def image_at(bits: int, growth: int = 20) -> tuple[Callable[[Vector], Vector], arb]:
        used.append(bits)
        many = arb(2) ** growth
        return lambda z: [z[0] * many / 3 - z[0] * (many - 1) / 3 + 1], arb(1)

    (found,) = damped_orbit(image_at, 1, 40, BITS)
    assert used == [320, 640, 1280]
    assert abs(found - arb("1.5") * (1 - arb(3) ** -40)) < NARROW
    used.clear()  # eight bits a step leave a radius of about 1 at first: too wide by far to say anything
    (found,) = damped_orbit(partial(image_at, growth=8), 1, 40, BITS)
    assert used == [320, 640]
    assert found.rad() < 2.0**-40
    used.clear()
    (found,) = damped_orbit(partial(image_at, growth=60), 1, 40, BITS)  # more than three attempts give
    assert len(used) == 3
    assert not found.rad() < NARROW
