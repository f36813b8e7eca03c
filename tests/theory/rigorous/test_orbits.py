"""Orbits of z0 = 0 against exact rational arithmetic, closed forms, and fixed points that are not reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.enclosure import enclose
from theory.rigorous.orbits import LONGEST_ORBIT, enclose_orbits, orbits_into_basin

Array = NDArray[np.float64]
NO_ENTRIES: Any = []


@dataclass
class Quadratic:
    """Φ(z) = A z + B (z ∘ z) + c, one system a position: all its orbits are rational."""

    A: Array
    B: Array
    c: Array
    damping: float = 1.0
    blocks: tuple[str, ...] = ()

    @property
    def latent_size(self) -> int:
        return self.c.shape[-1]

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Any]]:
        image = latent.mapped(Ball.exact(self.A)) + (latent * latent).mapped(Ball.exact(self.B))
        return image.shifted(Ball.exact(self.c)), []


def rational_orbit(system: Quadratic, iterations: int) -> list[Fraction]:
    A, B, c = (
        [[Fraction(x) for x in row] for row in np.atleast_2d(m)] for m in (system.A, system.B, system.c)
    )
    tau = Fraction(system.damping)
    z = [Fraction(0)] * system.latent_size
    for _ in range(iterations):
        image = [
            sum((a * x + b * x * x for a, b, x in zip(row, bend, z, strict=True)), shift)
            for row, bend, shift in zip(A, B, c[0], strict=True)
        ]
        z = [(1 - tau) * x + tau * y for x, y in zip(z, image, strict=True)]
    return z


def limit_of(system: Quadratic, steps: int = 4000) -> Array:
    z = np.zeros(system.latent_size)
    for _ in range(steps):
        image = system.A @ z + system.B @ (z * z) + system.c[0]
        z = z + system.damping * (image - z)
    return z


@pytest.mark.parametrize("damping", [1.0, 0.75, 0.5])
@pytest.mark.parametrize("size", [1, 3])
def test_the_exact_orbit_is_within_the_distance_that_is_proved(size: int, damping: float) -> None:
    compared = 0
    for seed in range(4):
        draw = np.random.default_rng(seed).integers
        # few digits, which double at every step
        parts = ((most, (rows, size)) for most, rows in ((5, size), (2, size), (8, 1)))
        A, B, c = (draw(-most, most + 1, shape) / 16 for most, shape in parts)
        system = Quadratic(A, B, c, damping)
        limit = limit_of(system)
        for within in (0.25, 0.03):
            found = enclose_orbits(system, {}, limit[None], np.array([within]))
            if not found.arrive[0] or found.iterations[0] > 8:
                continue
            exact = rational_orbit(system, int(found.iterations[0]))
            distance = max(abs(z - Fraction(x)) for z, x in zip(exact, limit, strict=True))
            assert distance <= Fraction(float(found.distance[0])) <= Fraction(within)
            # and not by much more than the distance: what rounding left is tiny
            assert float(found.distance[0]) <= float(distance) + 1e-12
            compared += 1
    assert compared >= 4


def on_numbers(a: float, b: float, c: float, damping: float = 1.0) -> Quadratic:
    """z ← a z + b z² + c."""
    return Quadratic(np.array([[a]]), np.array([[b]]), np.array([[c]]), damping)


def arrives(system: Quadratic, limit: float, within: float) -> bool:
    found = enclose_orbits(system, {}, np.array([[limit]]), np.array([within]))
    assert found.arrive[0] or np.isinf(found.distance[0])
    return bool(found.arrive[0])


def test_orbits_that_go_elsewhere_escape_or_cycle_prove_nothing_and_end() -> None:
    # z = z² + 3/16 at 1/4, where the slope is 1/2, and at 3/4, where it is 3/2
    assert arrives(on_numbers(0.0, 1.0, 3 / 16), 0.25, 1e-6)
    assert not arrives(on_numbers(0.0, 1.0, 3 / 16), 0.75, 1e-6)
    assert not arrives(on_numbers(2.0, 1.0, 1.0), -0.5, 0.1)
    cycle = on_numbers(-1.0, 0.0, 1.0)  # 0, 1, 0, 1, …
    assert not arrives(cycle, 0.5, 0.4)
    assert enclose_orbits(cycle, {}, np.array([[0.5]]), np.array([0.6])).iterations[0] == 0
    assert not arrives(on_numbers(1 - 2.0**-10, 0.0, 2.0**-10), 1.0, 0.1)
    assert (1 - 2.0**-10) ** LONGEST_ORBIT > 0.1


def test_an_orbit_that_passes_by_a_saddle_is_followed() -> None:
    """Errors grow by 2 a step for 24 steps in one direction only, while the other shrinks by 8."""
    # x ← 2x − x² + 2⁻²⁴ leaves 0 slowly, and goes to 1; y ← y/8 + 1
    system = Quadratic(
        np.array([[2.0, 0.0], [0.0, 0.125]]), np.diag([-1.0, 0.0]), np.array([[2.0**-24, 1.0]])
    )
    limit = limit_of(system, 100)
    found = enclose_orbits(system, {}, limit[None], np.array([1e-6]))
    assert found.arrive[0]
    assert 24 < found.iterations[0] < 40
    # the same turned by 45 degrees: what is bounded must not depend on the axes
    turn = np.array([[1.0, 1.0], [1.0, -1.0]])

    @dataclass
    class Turned(Quadratic):
        def advance(self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]) -> Any:
            inner = latent.mapped(Ball.exact(turn / 2))
            image, _ = super().advance(inner, state, directions)
            return image.mapped(Ball.exact(turn)), []

    turned = Turned(system.A, system.B, system.c)
    again = enclose_orbits(turned, {}, (turn @ limit)[None], np.array([1e-6]))
    assert again.arrive[0]


def test_the_condition_is_that_of_the_region_where_the_iteration_converges() -> None:
    """z/2 + 1: after n steps 2^{1−n} from 2; arrived when g (D + e) + e ≤ r."""
    system = on_numbers(0.5, 0.0, 1.0)
    one = np.ones(1)
    for growth, error, radius in ((1.0, 0.0, 0.3), (4.0, 0.0, 0.3), (1.0, 0.1, 0.3), (1.5, 0.01, 0.05)):
        found = orbits_into_basin(system, {}, np.array([[2.0]]), radius * one, error * one, growth * one)
        steps = next(n for n in range(60) if growth * (2.0 ** (1 - n) + error) + error <= radius)
        assert found.iterations[0] == steps
    nothing = orbits_into_basin(system, {}, np.array([[2.0]]), 0 * one, 0 * one, np.inf * one)
    assert not nothing.arrive[0]
    too_wrong = orbits_into_basin(system, {}, np.array([[2.0]]), 0.3 * one, 0.2 * one, one)
    assert not too_wrong.arrive[0]  # g e + e is above r already


def test_the_growth_bounds_every_short_product() -> None:
    """A step that stretches before it contracts, against its true powers."""
    system = Quadratic(np.array([[0.5, 100.0], [0.0, 0.5]]), np.zeros((2, 2)), np.zeros((1, 2)))
    bounds = enclose(system, {}, np.zeros((1, 2)), np.array([1.0]), NO_ENTRIES)
    k = int(bounds.power[0])
    norms = [np.abs(np.linalg.matrix_power(system.A, i)).sum(1).max() for i in range(k)]
    assert max(norms) <= bounds.growth[0]
    assert bounds.contracts[0]
    assert k == 16  # ‖A^8‖_∞ = 2^-8 + 800 · 2^-7 is above 1, ‖A^16‖_∞ = 2^-16 + 1600 · 2^-15 is not
    norm = np.abs(np.linalg.matrix_power(system.A, k)).sum(1).max()
    assert bounds.power_norm[0] == pytest.approx(norm, rel=1e-9)
    # the bound is one of norms of powers of two: 100.5, 100.25, 50.06 and 12.5 here
    assert bounds.growth[0] == pytest.approx(norms[1] * norms[2] * norms[4] * norms[8], rel=1e-9)


@pytest.mark.parametrize("damping", [1.0, 0.5])
def test_positions_do_not_touch_each_other(damping: float) -> None:
    system = on_numbers(0.0, 1.0, 3 / 16, damping)
    latents = np.array([[0.25], [0.75], [0.2501]])
    within = np.array([1e-6, 1e-6, 1e-3])
    together = enclose_orbits(system, {}, latents, within)
    assert together.arrive.tolist() == [True, False, True]
    for index in (0, 2):
        alone = enclose_orbits(system, {}, latents[[index]], within[[index]])
        assert alone.iterations[0] == together.iterations[index]
        assert alone.distance[0] == pytest.approx(together.distance[index], rel=1e-9)
