"""Orbits of loops known in closed form, orbits that are run, and metrics in which steps contract."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from implicit.fixed_point import DampedPicard, FixedPointProblem, Stopping, solve
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.functions import RULES
from theory.rigorous.covers import orbits
from theory.rigorous.covers.contracting_metrics import contracting_metrics, upper_bound
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop
from theory.rigorous.covers.orbits import Bundles, Iteration, Members, enclose_orbits, enclose_regions

Array = NDArray[np.float64]
JUST = 1e-9
A, B, TAU, RADIUS, WIDTH, CENTRE = -0.75, 0.5, 0.75, 1.0, 0.125, 2.0
Q = abs(1 - TAU + TAU * A)
"""The contraction of Φ(z; s) = A z + B s with damping TAU: 0.3125, exact in binary, as all numbers here."""
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


def bundle(metric: float = 1.0, short: float = 1.0, **changed: float) -> Bundles:
    chosen = {"centre": CENTRE, "width": WIDTH, "latent": Z, "radius": RADIUS, **changed}
    one = np.ones((1, 1))
    return Bundles(
        np.zeros(1, dtype=np.int64),
        chosen["centre"] * one,
        chosen["width"] * one,
        chosen["latent"] * one,
        np.full((1, 1, 1), metric),
        np.full((1, 1, 1), short / metric),
        np.array([metric * chosen["radius"]]),
    )


ITERATION = Iteration(TAU, tolerance=0.001, latent_error=0.004, step_error=0.0)


@pytest.mark.parametrize("short", [1.0, 0.75])
@pytest.mark.parametrize("metric", [1.0, 4.0])
@pytest.mark.parametrize("off", [0.0, 0.0078125])
def test_a_region_is_accepted_down_to_the_least_one(metric: float, off: float, short: float) -> None:
    """q R + τ b w + |T(z̃) − z̃| + η ≤ R decides, for a metric that only scales too.

    What axes that are a quarter too short for the metric leave out of the region is made up for.
    """
    away = abs(TAU * ((A - 1) * Z + B * CENTRE))
    least = (TAU * B * WIDTH + away + off) / (1 - Q)
    iteration = replace(ITERATION, latent_error=10.0, step_error=off)
    for factor, holds in ((1 + JUST, True), (1 - JUST, False)):
        found = enclose_regions(Line(), bundle(metric, short, radius=least * factor), iteration)
        assert bool(found.contracts[0]) is holds
        np.testing.assert_allclose(found.rate, Q, rtol=1e-12)


@pytest.mark.parametrize("off", [0.0, 1e-5])
def test_the_distance_at_which_it_stops_is_bounded_by_the_residual(off: float) -> None:
    least = (TAU * ITERATION.tolerance * (Z + RADIUS) + off) / (1 - Q)
    for factor, holds in ((1 + JUST, True), (1 - JUST, False)):
        iteration = replace(ITERATION, latent_error=least * factor, step_error=off)
        assert bool(enclose_regions(Line(), bundle(), iteration).contracts[0]) is holds


@pytest.mark.parametrize(("slope", "holds"), [(-1.5, True), (-1.7, False), (0.9, True), (1.1, False)])
def test_what_does_not_contract_has_no_region(slope: float, holds: bool) -> None:
    around = bundle(latent=B * CENTRE / (1 - slope), radius=50.0)
    found = enclose_regions(Line(slope), around, replace(ITERATION, latent_error=1e3))
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


def test_what_is_proved_of_a_bundle_does_not_depend_on_those_beside_it() -> None:
    """Regions that are entered early and late, and some that do not map into themselves."""
    loop, fixed = Line(0.6), B * CENTRE / 0.4
    sizes = ((0.75, 0.125), (0.02, 2**-6), (0.5, 0.125), (0.1, 0.125), (0.3, 0.125), (0.1, 2**-6))
    single = [bundle(latent=fixed, radius=share * fixed, width=width) for share, width in sizes]
    iteration = replace(ITERATION, latent_error=1.0)
    alone = [int(enclose_orbits(loop, one, iteration)[0]) for one in single]
    for order in (range(6), range(5, -1, -1)):
        together = Bundles(
            *(np.concatenate(part) for part in zip(*(vars(single[i]).values() for i in order), strict=True))
        )
        assert enclose_orbits(loop, together, iteration).tolist() == [alone[i] for i in order]
    assert alone[1] == alone[3] == 0
    assert alone[0] > alone[2] > alone[4] > alone[5] > 0


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
            stopping = Stopping(rtol=tolerance, max_iterations=needed)
            problem = FixedPointProblem(lambda z, state=state: slope * z + B * state)  # type: ignore[misc]
            found = solve(problem, DampedPicard(TAU), stopping, torch.zeros(1, 1, 1, dtype=torch.float64))
            assert abs(found.value.item() - B * state / (1 - slope)) <= iteration.latent_error
            if tolerance == iteration.tolerance:
                assert found.status.item() == 0
                most = max(most, int(found.iterations.item()))
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
        first = (latent[1:2] + state).through(*RULES["sin"]).scaled(Ball.exact(1.6))
        second = latent[0:1].through(*RULES["cos"]).scaled(Ball.exact(0.25))
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
    found = orbits.attraction_of(Wave(), members, iteration)
    assert found.holds
    assert 1 < found.bundles.count <= 41
    for state, latent, index in zip(states, fixed, found.membership, strict=True):
        assert abs(state - found.bundles.centres[index, 0]) <= found.bundles.widths[index, 0]
        away = found.bundles.metrics[index] @ (latent - found.bundles.latents[index])
        assert np.linalg.norm(away) <= found.bundles.radii[index]
        end = orbit(damped(state), found.evaluations[index] - 1)
        assert np.linalg.norm(end - latent) <= iteration.latent_error
    assert not found.within(int(found.evaluations.max()) - 1).holds
    # members without a bundle
    none = orbits.Attraction(orbits._no_bundles(2, 1), np.zeros(0, dtype=np.int64), np.full(3, -1))
    assert not none.within(100).holds


def test_the_region_of_a_step_alone_is_widened_as_far_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a residual of 0.03 the iteration may stop outside of the regions that are tried first."""
    monkeypatch.setattr(orbits, "BUNDLES_AT_ONCE", 1)
    centres, numbers, one = np.array([[2.0], [3.0]]), np.zeros((2, 2), dtype=np.int64), np.ones((2, 1, 1))
    latents = np.repeat(B * centres / (1 - A), 2, axis=1)[..., None]
    members = Members.of_cover(Cover(centres, one, one, np.zeros(2), numbers, numbers, latents), np.zeros(4))
    found = orbits.attraction_of(Line(), members, Iteration(TAU, 0.03, 1.0))
    assert found.holds
    assert found.bundles.tokens[found.membership].tolist() == members.tokens.tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(found.bundles.centres[found.membership, 0], [2, 2, 3, 3], rtol=1e-12)
    assert (found.bundles.radii > 1.1 * orbits.REGIONS[0] * found.bundles.latents[:, 0]).all()


def test_so_many_sets_without_a_proof_are_enough_to_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 sets of which nothing can be proved, cut in two down to single ones: three of those, and it ends."""
    tried: list[int] = []

    def recorded(loop: EnclosedLoop, bundles: Bundles, *others: Any) -> NDArray[np.int64]:
        tried.append(bundles.count)
        return enclose_orbits(loop, bundles, *others)

    monkeypatch.setattr(orbits, "enclose_orbits", recorded)
    monkeypatch.setattr(orbits, "BUNDLES_AT_ONCE", 1)
    monkeypatch.setattr(orbits, "FAILURES", 3)
    states = np.linspace(1.0, 2.0, 64)[:, None]
    members = Members(np.zeros(64, dtype=np.int64), states, 0 * states, B * states / (1 + 1.7), np.zeros(64))
    found = orbits.attraction_of(Line(-1.7), members, Iteration(TAU, 1e-6, 1e-5))
    assert not (found.membership >= 0).any()
    assert len(tried) == 7 + 1 + 2  # 64 to 1, the one beside it, and of the two beside those the first


def test_boxes_are_cut_across_the_entry_that_moves_the_iteration_most() -> None:
    """Or across the widest one where that is not known; where all are alike there, across the next."""
    centres = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    group, widths = np.arange(4), np.array([1.0, 2.0])
    for spread, entry in (([2.0, 1.0], 0), ([1.0, 2.0], 1), ([0.0, 0.0], 1), ([1.0, np.nan], 1)):
        low, high = orbits._halves(centres, group, np.array(spread), widths)
        assert low.tolist() == np.flatnonzero(centres[:, entry] == 0).tolist()
        assert high.tolist() == np.flatnonzero(centres[:, entry] == 1).tolist()
    flat = centres * [1.0, 0.0]
    low, high = orbits._halves(flat, group, np.array([1.0, 2.0]), widths)
    assert (low.tolist(), high.tolist()) == ([0, 1], [2, 3])


def test_metrics_are_found_for_those_that_need_one_and_are_plain_for_others() -> None:
    """Short and repelling ones, one that is no number and one whose powers overflow, before two others."""
    sheared, turned = np.array([[0.5, 30.0], [0.0, 0.5]]), np.array([[0.0, -0.9], [0.9, 0.0]])
    steep = np.array([[0.9, 1e200], [0.0, 0.9]])
    plain = [0.5 * np.eye(2), 1.5 * np.eye(2), np.full((2, 2), np.nan), steep]
    with np.errstate(all="ignore"):
        metrics = orbits._metrics(np.stack([*plain, sheared, turned]))
    for metric in metrics[:4]:
        np.testing.assert_array_equal(metric, np.eye(2))
    for metric, derivative in ((metrics[4], sheared), (metrics[5], turned)):
        contracted = metric @ derivative @ np.linalg.inv(metric)
        # Σ (JᵀᵏJᵏ) / γ²ᵏ: a step leaves it below γ², γ = (1 + spectral radius) / 2
        assert np.linalg.norm(contracted, 2) < (1 + np.abs(np.linalg.eigvals(derivative)).max()) / 2 + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_an_upper_bound_is_above_both_and_touches_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (a @ a.T + 0.1 * np.eye(4) for a in rng.standard_normal((2, 4, 4)))
    above = upper_bound(first, second)
    lowest = [np.linalg.eigvalsh(above - other) for other in (first, second)]
    # rounding of matrices with entries of order ten
    assert min(values.min() for values in lowest) > -1e-10
    # minimal: what is above first is not above it in the directions where second is larger, and conversely
    zero = sum(int((np.abs(values) < 1e-9).sum()) for values in lowest)
    assert zero == 4


@pytest.mark.parametrize("seed", range(3))
def test_every_step_contracts_in_the_metrics(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, tokens, size = 12, 2, 5
    jacobians = rng.standard_normal((sets, tokens, size, size))
    targets = rng.integers(0, sets, (sets, tokens))
    # scaled so that products decay on every path: the largest norm of products of 8 steps is below 0.5⁸
    products = [[jacobians[i, x], int(targets[i, x])] for i in range(sets) for x in range(tokens)]
    growth = max(np.linalg.norm(matrix, 2) for matrix, _ in products)
    for _ in range(7):
        products = [
            [jacobians[end, x] @ matrix, int(targets[end, x])]
            for matrix, end in products
            for x in range(tokens)
        ]
    growth = max(np.linalg.norm(matrix, 2) for matrix, _ in products) ** (1 / 8)
    jacobians *= 0.5 / growth
    assert np.linalg.norm(jacobians, 2, axis=(2, 3)).max() > 0.6
    found = contracting_metrics(jacobians, targets, rate=0.8)
    assert found is not None
    metrics, inverses = found
    np.testing.assert_allclose(metrics @ inverses, np.broadcast_to(np.eye(size), metrics.shape), atol=1e-9)
    gains = np.linalg.norm(metrics[targets] @ jacobians @ inverses[:, None], 2, axis=(2, 3))
    # the iteration ends when the squared norms change by less than 0.003
    assert gains.max() < 0.8 * 1.01


def test_a_cycle_that_expands_has_no_metrics() -> None:
    # 0 → 1 → 0 expands by 1.2 · 1.0, though one of its steps contracts
    steps = np.array([[[[2.0]]], [[[0.6]]]])
    assert contracting_metrics(steps, np.array([[1], [0]]), rate=0.95) is None
    assert contracting_metrics(steps / 2, np.array([[1], [0]]), rate=0.95) is not None


@pytest.mark.parametrize("shear", [1.0, 30.0, 1000.0])
def test_metrics_of_a_step_that_is_far_from_normal(shear: float) -> None:
    """Products of [[1/2, b], [0, 1/2]] decay, after a growth by b: so far from round is the metric."""
    step = np.array([[[[0.5, shear], [0.0, 0.5]]]])
    found = contracting_metrics(step, np.zeros((1, 1), dtype=np.int64), rate=0.7)
    assert found is not None
    metric, inverse = found[0][0], found[1][0]
    assert np.linalg.norm(metric @ step[0, 0] @ inverse, 2) < 0.7 * 1.01  # as above
    assert np.linalg.cond(metric) > shear
    np.testing.assert_array_equal(np.tril(metric, -1), 0)  # upper triangular: what certificates store
    np.testing.assert_allclose(metric @ inverse, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_has_no_metrics(number: float) -> None:
    steps = np.full((2, 1, 2, 2), number)
    assert contracting_metrics(steps, np.zeros((2, 1), dtype=np.int64), rate=0.9) is None
