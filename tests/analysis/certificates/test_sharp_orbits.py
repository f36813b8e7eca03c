"""Every term of the check of a bundle decides: claims that are just true, and claims that are just false.

Φ(z; s) = A z + B s in one dimension, where the bounds of `theory.rigorous.covers.orbits` are reached; the
expected ends of the claims are computed here from its formulas, in fractions.
"""

from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb

from analysis.certificates.claims.words import OrbitBundles, OrbitChecker, check_iteration
from tests.analysis.lines import is_accepted, refused_at

JUST = 1e-7
"""FLINT keeps radii to 30 bits, rounded upward."""
A, B, TAU, WIDTH, CENTRE, LATENT, OFF, METRIC = -0.75, 0.5, 0.75, 0.125, 2.0, 0.5, 2.0**-20, 4.0
Q = abs(1 - TAU + TAU * A)
MOVED = TAU * B * WIDTH
AWAY = abs(TAU * ((A - 1) * LATENT + B * CENTRE))
FIRST = TAU * B * CENTRE
"""Where the orbit of the middle of the box is after a step."""


class Line:
    """The model as far as the checker asks it."""

    size = 1
    damping = arb(TAU)

    def state(self, numbers: list[arb]) -> list[arb]:
        return numbers

    def evaluate(self, token: int, z: list[arb], state: list[arb], sources: Any) -> tuple[Any, Any, Any]:
        return [A * z[0] + B * state[0]], None, None

    def evaluate_along(self, token: int, z: Any, state: Any, directions: Any) -> tuple[Any, Any, Any]:
        return None, [[arb(A), B * directions[0][0]]], None


def bundles(**changed: Any) -> OrbitBundles:
    fields = {
        "centres": CENTRE,
        "widths": WIDTH,
        "latents": LATENT,
        "metrics": METRIC,
        "radii": METRIC * changed.pop("radius", 1.0),
        **changed,
    }
    return OrbitBundles(tokens=[0], **{name: np.array([number]) for name, number in fields.items()})


def checker(**changed: Any) -> OrbitChecker:
    own = ("tolerance", "latent_error", "step_error", "iterations")
    claims = {"tolerance": 1e-3, "latent_error": 1.0, "step_error": OFF, "iterations": 500}
    claims |= {name: changed.pop(name) for name in own if name in changed}
    claimed: Any = SimpleNamespace(bundles=bundles(**changed), **claims)
    model: Any = Line()
    return OrbitChecker(claimed, model)


def holds(line: str, **changed: Any) -> bool:
    return is_accepted(lambda: checker(**changed).check_bundle(0), line)


def test_a_region_is_accepted_down_to_the_least_one() -> None:
    least = (MOVED + AWAY + OFF) / (1 - Q)
    assert holds("bundles.radii[0]", radius=least * (1 + JUST))
    assert not holds("bundles.radii[0]", radius=least * (1 - JUST))


def test_the_latent_error_is_accepted_down_to_the_truth() -> None:
    least = (TAU * 1e-3 * (LATENT + 1.0) + OFF) / (1 - Q)
    for factor, accepted in ((1 + JUST, True), (1 - JUST, False)):
        # a region that holds zero leaves no tolerance to be met: how near it then is does not matter
        found = refused_at(partial(checker(latent_error=least * factor).check_bundle, 0))
        assert (found == "latent_error") is not accepted


def test_a_tolerance_is_accepted_up_to_where_it_may_be_met_too_early() -> None:
    """The region around the fixed point 4/7 is entered after the second step."""
    radius, fixed = 0.18, B * CENTRE / (1 - A)
    second = abs(TAU * ((A - 1) * FIRST + B * CENTRE))
    before, after = MOVED + OFF, (1 + Q) * (MOVED + OFF)
    assert abs(FIRST - fixed) + before > radius
    edge = (second - before - after - 2 * OFF) / (TAU * (FIRST + before))
    for factor, accepted in ((1 - JUST, True), (1 + JUST, False)):
        line, chosen = "bundles.latents[0]", {"radius": radius, "latents": fixed}
        assert holds(line, tolerance=edge * factor, **chosen) is accepted


@pytest.mark.parametrize("tolerance", [1e-3, 1e-1])
def test_iterations_are_accepted_down_to_the_least_number(tolerance: float) -> None:
    radius, latent, error = Fraction(0.25), Fraction(B * CENTRE / (1 - A)), Fraction(1, 100)
    rate, off, tau = Fraction(Q), Fraction(OFF), Fraction(TAU)
    entered = 1  # |3/4 − 4/7| + e₁ is below 1/4
    assert abs(FIRST - float(latent)) + MOVED + OFF < 0.25
    if tolerance == 1e-1:
        error = Fraction(1, 2)
    steps = 0
    while True:
        near = 2 * radius * rate**steps + off / (1 - rate)
        if near <= error and (1 + rate) * near + off <= tau * Fraction(tolerance) * (latent - radius):
            break
        steps += 1
    least = entered + steps + 1
    chosen = {"radius": 0.25, "latents": float(latent), "latent_error": float(error), "tolerance": tolerance}
    assert holds("iterations", iterations=least, **chosen)
    assert not holds("iterations", iterations=least - 1, **chosen)
    assert not holds("iterations", iterations=1, **chosen)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"radii": 0.0}, "bundles.radii[0]"),
        ({"radii": -1.0}, "bundles.radii[0]"),
        ({"widths": -WIDTH}, "bundles.radii[0]"),
        ({"metrics": 0.0}, "bundles.metrics[0]"),
        ({"latents": 1e300}, "bundles.radii[0]"),
        ({"widths": 1e300}, "bundles.radii[0]"),
        ({"step_error": 1e300}, "bundles.radii[0]"),
        ({"tolerance": 1e300}, "latent_error"),
    ],
    ids=str,
)
def test_numbers_that_prove_nothing_are_refused(changed: dict[str, float], line: str) -> None:
    assert not holds(line, **changed)


@pytest.mark.parametrize(
    ("changed", "accepted"),
    [
        ({}, True),
        ({"extent": WIDTH * (1 - JUST)}, True),
        ({"extent": WIDTH * (1 + JUST)}, False),
        ({"latent_radius": 1.0 * (1 - JUST)}, True),
        ({"latent_radius": 1.0 * (1 + JUST)}, False),
        ({"latent": LATENT + 0.5, "latent_radius": 0.5 * (1 - JUST)}, True),
        ({"latent": LATENT + 0.5, "latent_radius": 0.5 * (1 + JUST)}, False),
        ({"index": 1}, False),
        ({"token": 1}, False),
    ],
    ids=str,
)
def test_a_set_belongs_to_a_bundle_that_holds_it(changed: dict[str, float], accepted: bool) -> None:
    chosen = {"extent": 0.0, "latent": LATENT, "latent_radius": 0.0, "index": 0, "token": 0, **changed}
    found = refused_at(
        lambda: checker().check_member(
            "line",
            int(chosen["index"]),
            int(chosen["token"]),
            [CENTRE + arb(0, chosen["extent"])],
            [arb(chosen["latent"])],
            float(chosen["latent_radius"]),
        )
    )
    assert found == ("" if accepted else "line")


SIZES = {"damping": 0.8, "rtol": 1e-4, "max_iterations": 100, "d_model": 1}


@pytest.mark.parametrize(
    ("changed", "sizes", "line"),
    [
        ({}, {}, ""),
        ({"iterations": 100}, {}, ""),
        ({"iterations": 101}, {}, "iterations"),
        ({"iterations": 10**4}, {"max_iterations": 10**12}, ""),
        ({"iterations": 10**4 + 1}, {"max_iterations": 10**12}, "iterations"),
        ({}, {"max_iterations": 9}, "iterations"),
        ({"tolerance": 0.0}, {}, "tolerance"),
        ({"tolerance": 1 - JUST}, {}, ""),
        ({"tolerance": 1.0}, {}, "tolerance"),
        ({"latent_error": -1.0}, {}, "latent_error"),
        ({"step_error": -1.0}, {}, "step_error"),
        ({"ulps": 4}, {}, ""),
        ({"ulps": 3}, {}, "ulps"),
        ({"ulps": 1024}, {}, ""),
        ({"ulps": 1025}, {}, "ulps"),
        ({"bundles": bundles(widths=[1.0, 1.0])}, {}, "bundles.widths"),
        ({"bundles": bundles(radii=[1.0, 1.0])}, {}, "bundles.radii"),
        ({"bundles": bundles().model_copy(update={"tokens": [2]})}, {}, "bundles.tokens"),
        ({"bundles": bundles().model_copy(update={"tokens": [0, 0]})}, {}, "bundles.centres"),
        ({"bundles": bundles().model_copy(update={"tokens": []})}, {}, "bundles.tokens"),
    ],
)
def test_numbers_and_sizes_are_those_of_the_run(changed: Any, sizes: Any, line: str) -> None:
    fields = {"bundles": bundles(), "tolerance": 1e-3, "latent_error": 0.0, "step_error": 0.0, "ulps": 4}
    claims: Any = SimpleNamespace(**{**fields, "iterations": 10, **changed})
    assert refused_at(lambda: check_iteration(claims, {**SIZES, **sizes}, state=1, tokens=2)) == line


@pytest.mark.parametrize("name", ["damping", "rtol", "max_iterations"])
def test_what_a_configuration_does_not_name_is_not_assumed(name: str) -> None:
    claims: Any = SimpleNamespace(bundles=bundles(), iterations=1)
    sizes = {key: size for key, size in SIZES.items() if key != name}
    assert refused_at(lambda: check_iteration(claims, sizes, state=1, tokens=2)) == f"config.sizes.{name}"
