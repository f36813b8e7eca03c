from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from theory import (
    BlockMap,
    FactoredJacobian,
    State,
    Transition,
    latent_jacobian,
    layer_jacobians,
    solve_fixed_point,
)
from theory.blocks import random_signs
from theory.fixed_point import EPSILON
from theory.forward_mode import directional
from theory.theorem1.cross_checks import (
    central_differences,
    jacobian_errors,
    jacobian_rounding,
    latent_jacobian_error,
    resolved_differences,
)

MakeSSM = Callable[..., Transition]
MakeStates = Callable[[int, int], list[State]]


def solved(transition: Transition, state: State) -> tuple[BlockMap, Tensor, FactoredJacobian]:
    latent = solve_fixed_point(transition, state).latent
    block = BlockMap(transition, state, transition.layer_states[0])
    return block, latent, layer_jacobians(transition, state, latent)[0]


def unrolled_products(block: BlockMap, latent: Tensor, directions: Tensor) -> Tensor:
    """Derivatives of v ↦ G(z*(v), v), ``[k, n]``, by autodiff through 600 steps from z* on, tangent zero."""
    damping = block.transition.damping

    def unrolled(vector: Tensor) -> Tensor:
        z = latent
        for _ in range(600):
            z = (1 - damping) * z + damping * block.self_map(z, vector)
        return block.state_update(z, vector)

    return directional(unrolled, block.vector, directions)


def test_central_differences_of_a_parabola_are_exact_up_to_rounding() -> None:
    point = torch.tensor([1.0, 2.0], dtype=torch.float64)
    directions = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    measured = central_differences(torch.square, point, directions)
    # No truncation error for a polynomial of degree 2; rounding ε/step is 4e-11 relative.
    torch.testing.assert_close(measured, directions * 2 * point, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_three_computations_of_the_jacobian_agree(
    seed: int, make_ssm: MakeSSM, make_states: MakeStates
) -> None:
    block, latent, jacobian = solved(make_ssm(seed, damping=0.8), make_states(6, seed + 1)[seed])
    directions = random_signs(3, 6, latent, seed=seed)
    implicit = torch.stack([jacobian.matvec(direction) for direction in directions])
    # At rates below 0.95 six hundred steps leave 4e-14 of the tangent; the rest is rounding over 1 − rate.
    torch.testing.assert_close(unrolled_products(block, latent, directions), implicit, rtol=0, atol=1e-12)
    # Finite differences: ε^⅔ = 4e-11 times derivatives of order one.
    torch.testing.assert_close(resolved_differences(block, latent, directions), implicit, rtol=0, atol=1e-8)


def test_error_of_a_right_jacobian_is_small_and_of_a_wrong_one_is_its_distance(
    make_ssm: MakeSSM, make_states: MakeStates
) -> None:
    block, latent, jacobian = solved(make_ssm(), make_states(6, 1)[0])
    assert jacobian_errors(jacobian, block, latent)[0] < 1e-9 * jacobian.frobenius_norm()  # ε^⅔ and a decade
    shift = torch.zeros_like(jacobian.direct)
    shift[2] = 0.25
    wrong = FactoredJacobian(jacobian.direct + shift, jacobian.left, jacobian.right)
    # A diagonal error maps every sign vector to the same norm, so that the estimate is exact here.
    assert jacobian_errors(wrong, block, latent)[0] == pytest.approx(0.25, abs=1e-8)


def test_error_shows_a_latent_that_is_no_fixed_point(make_ssm: MakeSSM, make_states: MakeStates) -> None:
    block, latent, _ = solved(make_ssm(), make_states(6, 1)[0])
    elsewhere = latent + 0.1
    jacobian = layer_jacobians(block.transition, block.state, elsewhere)[0]
    # The derivative of the formula at a wrong latent differs at first order in the distance.
    assert jacobian_errors(jacobian, block, elsewhere)[0] > 1e-4 * jacobian.frobenius_norm()


def test_vanished_fixed_point_gives_no_number() -> None:
    # Φ(z) = z + h² has fixed points at h = 0 only.
    transition = Transition(lambda z, s: z + s["h"] ** 2, lambda z, s: {"h": z}, 1, (("h",),))
    zero = torch.zeros(1, dtype=torch.float64)
    block = BlockMap(transition, {"h": zero}, ("h",))
    assert resolved_differences(block, zero, torch.ones(1, 1, dtype=torch.float64)).isnan().all()


def test_error_of_the_latent_jacobian(make_ssm: MakeSSM, make_states: MakeStates) -> None:
    block, latent, _ = solved(make_ssm(), make_states(6, 1)[0])
    slope = latent_jacobian(block.transition, block.state, latent)
    assert latent_jacobian_error(slope, block, latent) < 1e-9  # ε^⅔ and a decade
    wrong = slope + torch.diag(torch.full((4,), 0.5, dtype=torch.float64))
    assert latent_jacobian_error(wrong, block, latent) == pytest.approx(1.0, abs=1e-8)  # sqrt(4 · ½²)


@pytest.mark.parametrize("slope", [0.01, 1.0, 100.0])
def test_the_rounding_of_a_linear_map_is_relative_to_its_norm(slope: float) -> None:
    """J does not move, so that ε ‖J‖_F is left; ‖J‖_F is 2 times the slope in four entries."""
    linear = Transition(lambda z, s: z, lambda z, s: {"h": slope * s["h"]}, 0, (("h",),))
    h = torch.ones(4, dtype=torch.float64)
    (jacobian,) = layer_jacobians(linear, {"h": h}, h[:0])
    rounding = jacobian_rounding(linear, {"h": h}, h[:0], 0, jacobian)
    assert rounding == pytest.approx(EPSILON * 2 * slope, rel=1e-12, abs=0)  # else 1e-12 would do
