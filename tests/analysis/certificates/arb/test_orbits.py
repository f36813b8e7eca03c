"""The checker's orbits against closed forms and rational numbers."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from flint import arb, fmpq

from analysis.certificates.arb.models import precision
from analysis.certificates.claims.theorem1 import NARROW, damped_orbit

BITS = 128
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
