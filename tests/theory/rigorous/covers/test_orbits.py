"""Orbits of loops of which everything is known in closed form, and orbits that are simply run."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from implicit.fixed_point import DampedPicard, FixedPointProblem, Stopping, solve
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers.bundling import Members, attraction_of
from theory.rigorous.covers.orbits import Bundles, Iteration, enclose_orbits, enclose_regions

Array = NDArray[np.float64]
JUST = 1e-9
A, B, TAU, RADIUS, WIDTH, CENTRE = -0.75, 0.5, 0.75, 1.0, 0.125, 2.0
Q = abs(1 - TAU + TAU * A)
"""Of Φ(z; s) = A z + B s with damping TAU: 0.3125; exact in binary, as all numbers here."""
FIXED = B * CENTRE / (1 - A)
Z = 0.5
"""The middle of the region; the fixed point at the middle of the box is 4/7."""


class Line:
    """Φ(z; s) = a z + b s."""

    def __init__(self, slope: float = A) -> None:
        self.slope = slope

    def advance(self, latent: Dual, state: Dual, tokens: object) -> tuple[Dual, Dual]:
        return latent.scaled(Ball.exact(self.slope)) + state.scaled(Ball.exact(B)), state

    def logits(self, latent: Dual) -> Dual:
        return latent


def bundle(metric: float = 1.0, **changed: float) -> Bundles:
    chosen = {"centre": CENTRE, "width": WIDTH, "latent": Z, "radius": RADIUS, **changed}
    one = np.ones((1, 1))
    return Bundles(
        np.zeros(1, dtype=np.int64),
        chosen["centre"] * one,
        chosen["width"] * one,
        chosen["latent"] * one,
        np.full((1, 1, 1), metric),
        np.full((1, 1, 1), 1 / metric),
        np.array([metric * chosen["radius"]]),
    )


ITERATION = Iteration(TAU, tolerance=0.001, latent_error=0.004, step_error=0.0)


@pytest.mark.parametrize("metric", [1.0, 4.0])
@pytest.mark.parametrize("off", [0.0, 0.0078125])
def test_a_region_is_accepted_down_to_the_least_one(metric: float, off: float) -> None:
    """q R + τ b w + |T(z̃) − z̃| + η ≤ R decides, for a metric that only scales too."""
    away = abs(TAU * ((A - 1) * Z + B * CENTRE))
    least = (TAU * B * WIDTH + away + off) / (1 - Q)
    iteration = replace(ITERATION, latent_error=10.0, step_error=off)
    for factor, holds in ((1 + JUST, True), (1 - JUST, False)):
        found = enclose_regions(Line(), bundle(metric, radius=least * factor), iteration)
        assert bool(found.contracts[0]) is holds
        np.testing.assert_allclose(found.rate, Q, rtol=1e-12)


@pytest.mark.parametrize("off", [0.0, 1e-5])
def test_the_distance_at_which_it_stops_is_bounded_by_the_residual(off: float) -> None:
    least = (TAU * ITERATION.tolerance * (Z + RADIUS) + off) / (1 - Q)
    for factor, holds in ((1 + JUST, True), (1 - JUST, False)):
        iteration = replace(ITERATION, latent_error=least * factor, step_error=off)
        assert bool(enclose_regions(Line(), bundle(), iteration).contracts[0]) is holds


def test_what_does_not_contract_has_no_region() -> None:
    for slope, holds in ((-1.5, True), (-1.7, False), (0.9, True), (1.1, False)):
        fixed = B * CENTRE / (1 - slope)
        found = enclose_regions(
            Line(slope), bundle(latent=fixed, radius=50.0), replace(ITERATION, latent_error=1e3)
        )
        assert bool(found.contracts[0]) is holds


def test_a_tolerance_that_may_be_met_outside_of_the_region_proves_nothing() -> None:
    """From 0 the first step is τ b s; the region lies farther, so that the second has to be made as well."""
    narrow = bundle(latent=FIXED, radius=0.18)
    assert enclose_orbits(Line(), narrow, replace(ITERATION, latent_error=1.0))[0] > 0
    first, width = TAU * B * CENTRE, TAU * B * WIDTH
    second = abs(TAU * ((A - 1) * first + B * CENTRE))
    # entered after two steps: y_2 − y_1 is second, e_1 = width, e_2 = q width + width
    assert abs(first - FIXED) + width > 0.18
    edge = (second - width - (Q * width + width)) / (TAU * (first + width))
    for factor, holds in ((1 - JUST, True), (1 + JUST, False)):
        iteration = replace(ITERATION, tolerance=edge * factor, latent_error=1e3)
        assert bool(enclose_orbits(Line(), narrow, iteration)[0] > 0) is holds


def returned(a: float, state: float, tau: float, tolerance: float, limit: int) -> tuple[float, int, bool]:
    """What the solver of the models returns."""
    problem = FixedPointProblem(lambda z: a * z + B * state)
    start = torch.zeros(1, 1, 1, dtype=torch.float64)
    found = solve(problem, DampedPicard(tau), Stopping(rtol=tolerance, max_iterations=limit), start)
    return found.value.item(), int(found.iterations.item()), bool(found.status.item() == 0)


@pytest.mark.parametrize("slope", [-0.75, 0.25, 0.6])
def test_the_solver_of_the_models_stops_as_it_is_proved(slope: float) -> None:
    fixed = B * CENTRE / (1 - slope)
    around = bundle(latent=fixed, radius=0.3 * fixed)
    iteration = Iteration(TAU, 1e-4, 1e-3)
    needed = int(enclose_orbits(Line(slope), around, iteration)[0])
    assert needed > 0
    most = 0
    for state in np.linspace(CENTRE - WIDTH, CENTRE + WIDTH, 9):
        for tolerance in (1e-4, 1e-6, 0.0):
            value, taken, converged = returned(slope, state, TAU, tolerance, needed)
            assert abs(value - B * state / (1 - slope)) <= iteration.latent_error
            if tolerance == iteration.tolerance:
                assert converged
                most = max(most, taken)
    assert most <= needed <= most + 12  # the first bound in the region is twice its radius


def test_steps_that_are_off_stay_within_what_is_proved() -> None:
    iteration = Iteration(TAU, 1e-3, 1e-2, step_error=1e-5)
    around = bundle(latent=FIXED, radius=0.3)
    needed = int(enclose_orbits(Line(), around, iteration)[0])
    assert needed > 0
    rng = np.random.default_rng(0)
    for state in np.linspace(CENTRE - WIDTH, CENTRE + WIDTH, 9):
        for signs in (rng.choice([-1.0, 1.0], 200), np.ones(200), -np.ones(200)):
            z, stopped = 0.0, False
            for sign in signs[:needed]:
                image = A * z + B * state
                if abs(image - z) + sign * iteration.step_error / TAU <= iteration.tolerance * abs(z):
                    stopped = True
                    break
                z = z + TAU * (image - z) + sign * iteration.step_error
            assert stopped
            assert abs(z - B * state / (1 - A)) <= iteration.latent_error


class Wave:
    """Φ(z; s) = (2 sin(z₂ + s), cos z₁ / 4): not normal, so that its Euclidean norm is above 1."""

    def advance(self, latent: Dual, state: Dual, tokens: object) -> tuple[Dual, Dual]:
        first = (latent[1:2] + state).sin().scaled(Ball.exact(1.6))
        second = latent[0:1].cos().scaled(Ball.exact(0.25))
        both = first.mapped(Ball.exact([[1.0], [0.0]])) + second.mapped(Ball.exact([[0.0], [1.0]]))
        return both, state

    def logits(self, latent: Dual) -> Dual:
        return latent


def orbit(step: Callable[[Array], Array], count: int) -> Array:
    z = np.zeros(2)
    for _ in range(count):
        z = step(z)
    return z


def test_bundles_are_divided_until_each_is_proved_and_each_orbit_ends_near_its_fixed_point() -> None:
    tau, states = 0.9, np.linspace(-0.5, 0.5, 41)

    def damped(state: float) -> Callable[[Array], Array]:
        return lambda z: (1 - tau) * z + tau * np.array([1.6 * np.sin(z[1] + state), np.cos(z[0]) / 4])

    fixed = np.array([orbit(damped(state), 3000) for state in states])
    members = Members(
        np.zeros(41, dtype=np.int64), states[:, None], np.full((41, 1), 1e-5), fixed, np.full(41, 1e-4)
    )
    iteration = Iteration(tau, 1e-6, 2e-5)
    found = attraction_of(Wave(), members, iteration)
    assert found.holds
    assert 1 < found.bundles.count <= 41
    for state, latent, index in zip(states, fixed, found.membership, strict=True):
        assert abs(state - found.bundles.centres[index, 0]) <= found.bundles.widths[index, 0]
        away = found.bundles.metrics[index] @ (latent - found.bundles.latents[index])
        assert np.linalg.norm(away) <= found.bundles.radii[index]
        end = orbit(damped(state), found.evaluations[index] - 1)
        assert np.linalg.norm(end - latent) <= iteration.latent_error
    late = found.within(int(found.evaluations.max()) - 1)
    assert not late.holds


def test_of_sets_whose_fixed_points_repel_nothing_is_proved() -> None:
    states = np.array([[1.0], [2.0]])
    members = Members(np.zeros(2, dtype=np.int64), states, 0 * states, B * states / (1 + 1.7), np.zeros(2))
    found = attraction_of(Line(-1.7), members, Iteration(TAU, 1e-6, 1e-5))
    assert found.membership.tolist() == [-1, -1]
    assert found.bundles.count == 0
