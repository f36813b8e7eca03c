"""The checker's orbits against closed forms and rational numbers, and Φ alone against Φ with derivatives."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from flint import arb, fmpq

from analysis.certificates.arb.models import ArbModel, precision
from analysis.certificates.claims.theorem1 import NARROW, damped_orbit
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config

BITS = 128
Vector = list[arb]
SHAPES: list[dict[str, Any]] = [
    {},
    {"d_conv": 1},
    {"groups": 2, "expand": 4},
    {"layers": 2, "residual": False},
    {"layers": 3, "expand": 4, "d_state": 5, "groups": 2},
]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_phi_alone_is_phi_with_derivatives(sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    whole = {"vocabulary_size": 3, "output_size": 2, "d_model": 4, "head_size": 4, "d_state": 2, **sizes}
    config = ImplicitMamba2Config(**cast(Any, whole))
    weights = {name: value.numpy() for name, value in ImplicitMamba2(config).state_dict().items()}
    generator = np.random.default_rng(0)
    with precision(BITS):
        model = ArbModel(weights, config.model_dump())
        count = sum(rows * columns for rows, columns in model.shapes.values())
        for token, scale in ((0, 0.0), (1, 1.0), (2, 30.0)):
            z = [arb(float(x)) for x in scale * generator.normal(size=model.size)]
            state = model.state([arb(float(x)) for x in generator.normal(size=count)])
            expected, _, _ = model.evaluate(token, z, state, [0] * len(model.blocks))
            found = model.image(token, z, state)
            assert len(found) == model.size
            for ours, other in zip(found, expected, strict=True):
                assert ours.overlaps(other)
                # both are sharp: a few hundred operations at 128 bits, in a model of moderate slopes
                assert ours.rad() < arb(2) ** -90
                assert other.rad() < arb(2) ** -90


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
