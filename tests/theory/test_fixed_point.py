import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from tests.theory.transitions import random, self_map_only
from theory import State, Status, solve_fixed_point
from theory.fixed_point import EPSILON, ERROR_MARGIN, refine, rounding_level

STATE: State = {"h": torch.zeros(1, dtype=torch.float64)}


def test_an_expanding_map_with_a_fixed_point_and_one_that_diverges_do_not_converge() -> None:
    expanding = self_map_only(lambda z, s: 3 * torch.tanh(-2 * z) + 0.1)
    found = solve_fixed_point(expanding, STATE, max_iterations=200)
    assert found.status is Status.MAX_ITERATIONS
    assert found.residual > 1
    assert solve_fixed_point(self_map_only(lambda z, s: z**2 + 2), STATE).status is Status.NON_FINITE


def test_damping_turns_a_two_cycle_into_a_fixed_point() -> None:
    undamped = self_map_only(lambda z, s: 1 - z)
    assert solve_fixed_point(undamped, STATE, max_iterations=50).status is Status.MAX_ITERATIONS
    assert solve_fixed_point(replace(undamped, damping=0.5), STATE).latent.item() == 0.5


def test_newton_finishes_a_slow_iteration_and_reports_the_distance() -> None:
    # Rate 0.999: 17,000 iterations would reach the residual 1e-8, 35,000 the rounding level.
    slow = self_map_only(lambda z, s: 0.999 * z + 0.001)
    found = solve_fixed_point(slow, STATE, max_iterations=14_000)
    assert found.status is Status.CONVERGED
    assert found.iterations == 14_000
    assert found.latent.item() == pytest.approx(1, abs=1e-12)  # rounding divided by 1 − 0.999
    # The gap left by the iteration, of which the accepted step covers all.
    assert found.polish_distance == pytest.approx(0.999**14_000, rel=1e-3)


def test_newton_is_not_accepted_far_away() -> None:
    # At z = 1 the residual 1e-9 is small against z, but the slope 1 − 1e-9 points to a fixed point at z = 2.
    creeping = self_map_only(lambda z, s: z + 1e-9 * (2 - z))
    found = solve_fixed_point(creeping, STATE, torch.ones(1, dtype=torch.float64), max_iterations=10)
    assert (found.status, found.polish_distance) == (Status.MAX_ITERATIONS, 0)
    assert found.latent.item() < 1.001


def test_start_chooses_among_two_fixed_points() -> None:
    bistable = self_map_only(lambda z, s: torch.tanh(2 * z))
    for sign in (-1.0, 1.0):
        found = solve_fixed_point(bistable, STATE, torch.tensor([sign], dtype=torch.float64))
        # tanh(2 z) = z at z = 0.957504...
        assert found.latent.item() == pytest.approx(sign * 0.9575040240772687, abs=1e-14)


def test_model_without_latent_has_the_empty_fixed_point() -> None:
    found = solve_fixed_point(self_map_only(lambda z, s: z, 0), STATE)
    assert (found.converged, found.latent.shape, found.residual) == (True, (0,), 0)


def test_rounding_level_sees_the_state_as_well_as_the_latent() -> None:
    state = {"h": torch.ones(1, dtype=torch.float64)}
    transition = self_map_only(lambda z, s: 2.0**20 * s["h"])
    level = rounding_level(transition, state, torch.zeros(1, dtype=torch.float64))
    # The last place of h = 1 is ε or ε/2; 2^20 multiplies it exactly.
    assert level in (2.0**19 * EPSILON, 2.0**20 * EPSILON)


def test_refine_with_a_singular_slope_leaves_the_latent_alone() -> None:
    latents = torch.zeros(2, 1, dtype=torch.float64)
    refined, residuals = refine(lambda z: z + 1, latents, torch.ones(1, 1, dtype=torch.float64))
    assert torch.equal(refined, latents)
    assert residuals.tolist() == [1, 1]


def test_a_self_map_that_writes_into_what_it_is_given_is_refused() -> None:
    state = {"h": torch.zeros(1, dtype=torch.float64)}
    with pytest.raises(InputError, match=r"self_map changes its state entry 'h' in place"):
        solve_fixed_point(self_map_only(lambda z, s: z / 2 + s["h"].add_(1)), state)
    assert not state["h"].any()


@pytest.mark.parametrize("seed", range(5))
def test_the_noise_of_a_random_self_map_is_not_its_rounding(seed: int) -> None:
    torch.manual_seed(seed)
    dropped = self_map_only(lambda z, s: torch.nn.functional.dropout(z / 2 + 1, 0.3), 2)
    with contextlib.suppress(InputError):  # which says so, where by chance no entry was dropped for long
        assert solve_fixed_point(dropped, STATE).status is Status.MAX_ITERATIONS


DRIFTS: dict[str, Callable[[Tensor, State], Tensor]] = {
    "beside a large entry": lambda z, s: torch.stack([z[0] + 1e-9, z[1] / 2 + 1e8]),
    "slowly": lambda z, s: torch.stack([z[0] + 1e-25, z[1] / 2 + 1e8]),
    "through another entry": lambda z, s: torch.stack([z[0] + 1e-9, z[1] / 2 + 1e8, z[0] / 2]),
    "to and fro": lambda z, s: torch.stack([1e-9 - z[0], z[1] / 2 + 1e8]),
}


@pytest.mark.parametrize("self_map", DRIFTS.values(), ids=DRIFTS)
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_an_entry_that_never_stops_is_seen_beside_a_large_one(
    self_map: Callable[[Tensor, State], Tensor], start: float
) -> None:
    size = len(self_map(torch.zeros(3, dtype=torch.float64), STATE))
    found = solve_fixed_point(
        self_map_only(self_map, size), STATE, torch.full((size,), start).double(), max_iterations=300
    )
    at_rest = self_map(found.latent, STATE)[0] == found.latent[0]
    assert found.status is (Status.CONVERGED if at_rest else Status.MAX_ITERATIONS)


@pytest.mark.parametrize("contraction", [0.3, 0.9, 0.99])
def test_entries_of_all_sizes_converge_as_each_does_alone(contraction: float) -> None:
    """z ← D M D⁻¹ z + D b, with units D of 1e-12 to 1e12: the fixed point is D times that of M and b."""
    slope, offset = random(8, 8), random(8, seed=1)
    slope *= contraction / torch.linalg.matrix_norm(slope, 2)
    units = 10.0 ** torch.linspace(-12, 12, 8, dtype=torch.float64)
    found = solve_fixed_point(
        self_map_only(lambda z, s: units * (slope @ (z / units) + offset), 8, 0.7), STATE
    )
    expected = units * torch.linalg.solve(torch.eye(8, dtype=torch.float64) - slope, offset)
    assert found.status is Status.CONVERGED
    assert found.residual <= found.threshold
    # the rounding of Φ, 10 ε of an entry, times a condition number of at most 1 / (1 − contraction)
    torch.testing.assert_close(found.latent / expected, torch.ones_like(expected), rtol=1e-12, atol=0)


@pytest.mark.parametrize("contraction", [1.0, 1 / 16, 1 / 256])
def test_rounding_level_covers_rounding_inside_a_contracting_map(contraction: float) -> None:
    """z ← c z + 8 − 8 in floats: its residual at points near the exact fixed point, 0.3 (1 − c) added."""

    def self_map(z: Tensor, s: State) -> Tensor:
        return (contraction * z + 0.3 * (1 - contraction) + 8) - 8

    transition = self_map_only(self_map)
    points = 0.3 + torch.linspace(-4, 4, 33, dtype=torch.float64)[:, None] * EPSILON
    exact = contraction * points + 0.3 * (1 - contraction)
    rounding = max((self_map(z, STATE) - value).abs().item() for z, value in zip(points, exact, strict=True))
    assert rounding > EPSILON
    level = rounding_level(transition, STATE, points[0])
    assert rounding <= ERROR_MARGIN * level
    assert level <= 16 * EPSILON  # two roundings to multiples of 8 ε, not a decade more
