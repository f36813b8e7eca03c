"""Enclosures against closed forms: affine systems, a bistable map, and a non-normal one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from automata.errors import InputError
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.dual import join
from theory.rigorous.enclosure import (
    approximate_slopes,
    enclose,
    independent_of_state,
    newton_step_bound,
    refine,
)

Array = NDArray[np.float64]
FIRST = (np.array([0]), np.array([0]))


@dataclass
class Update:
    """h' = decay ⊙ h + drive."""

    decay: Dual
    drive: Dual

    @property
    def coefficients(self) -> Dual:
        return join([self.decay, self.drive])

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        return self.decay.at(rows), self.drive.at(rows)


def _seeded(state: Ball, directions: Mapping[str, Ball], columns: int, column: int) -> Dual:
    """h with its derivative in one column."""
    if not directions:
        return Dual.constant(state, columns)
    seed = np.zeros(columns)
    seed[column] = 1.0
    return Dual(state, directions["h"][..., None] * Ball.exact(seed))


@dataclass
class Affine:
    """Φ = A z + C h and h' = λ h + B z."""

    A: Array
    C: Array
    B: Array
    decay: Array
    damping: float = 1.0
    blocks: tuple[str, ...] = ("h",)

    @property
    def latent_size(self) -> int:
        return len(self.A)

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Update]]:
        h = _seeded(state["h"], directions, latent.columns, self.latent_size)
        decay = Dual.constant(Ball.exact(np.broadcast_to(self.decay, state["h"].shape)), latent.columns)
        image = latent.mapped(Ball.exact(self.A)) + h.mapped(Ball.exact(self.C))
        return image, [Update(decay, latent.mapped(Ball.exact(self.B)))]


@dataclass
class Bistable:
    """Φ = σ(8 z − 4 + h): at h = 0 a repelling fixed point 1/2 between two attracting ones; h' = z h."""

    latent_size: int = 1
    damping: float = 0.5
    blocks: tuple[str, ...] = ("h",)

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Update]]:
        h = _seeded(state["h"], directions, latent.columns, 1)
        argument = latent.scaled(Ball.exact(8.0)).shifted(Ball.exact(-4.0)) + h
        growth = (argument.scaled(Ball.exact(-1.0))).exp().shifted(Ball.exact(1.0))
        root = growth.rsqrt()  # σ(x) = 1 / (1 + e^{−x})
        return root * root, [Update(latent, Dual.constant(Ball.exact(np.zeros((1, 1))), latent.columns))]


@pytest.fixture
def affine() -> Affine:
    generator = np.random.default_rng(0)
    A = generator.normal(size=(4, 4)) / 5
    return Affine(A, generator.normal(size=(4, 6)), generator.normal(size=(6, 4)), np.linspace(0.1, 0.9, 6))


def _solution(affine: Affine, h: Array) -> Array:
    return np.asarray(np.linalg.solve(np.eye(4) - affine.A, affine.C @ h), dtype=np.float64)


def test_all_statements_of_an_affine_system(affine: Affine) -> None:
    h = np.arange(6.0)
    z = _solution(affine, h)
    J = np.diag(affine.decay) + affine.B @ np.linalg.solve(np.eye(4) - affine.A, affine.C)
    for row, column in [(2, 5), (3, 3)]:
        places = (np.array([row]), np.array([column]))
        bounds = enclose(affine, {"h": Ball.exact(h[None])}, z[None], np.array([1.0]), [places])
        assert bounds.exists[0]
        assert bounds.contracts[0]
        assert bounds.error[0] < 1e-12  # the rounding of z
        singular = np.linalg.svd(np.eye(4) - affine.A, compute_uv=False)[-1]
        # the norm bound may be 4^{1/64} = 1.03 too large
        assert singular / 1.03 <= bounds.singular_value[0] <= singular * (1 + 1e-12)
        radius = np.abs(np.linalg.eigvals(affine.A)).max()
        assert radius <= bounds.power_norm[0] ** (1 / bounds.power[0]) < 1
        assert bounds.entries[0].contains(J[row, column])
        assert bounds.entries[0].radius[0] < 1e-12


def test_a_box_of_states_holds_the_fixed_points_of_all_of_them(affine: Affine) -> None:
    h, radius = np.arange(6.0), 0.25
    z = _solution(affine, h)
    box = {"h": Ball.around(h[None], radius)}
    bounds = enclose(affine, box, z[None], np.array([10.0]), [FIRST])
    assert bounds.exists[0]
    response = np.abs(np.linalg.solve(np.eye(4) - affine.A, affine.C)).sum(1).max() * radius
    # for an affine map only the wrapping of P C h in two products is lost
    assert response <= bounds.error[0] <= np.sqrt(6) * 2 * response
    assert newton_step_bound(affine, box, z[None])[0] == pytest.approx(bounds.error[0], rel=1e-9)
    for corner in np.random.default_rng(1).choice([-1, 1], (30, 6)):
        moved = _solution(affine, h + radius * corner)
        assert np.abs(moved - z).max() <= bounds.error[0]


def test_a_repelling_fixed_point_exists_but_does_not_attract() -> None:
    state = {"h": Ball.exact(np.zeros((1, 1)))}
    middle = enclose(Bistable(), state, np.array([[0.5]]), np.array([0.02]), [FIRST])
    assert middle.exists[0]
    assert not middle.contracts[0]
    assert middle.power[0] == 0
    outer = refine(Bistable(), state, np.array([[0.97]]))
    attracting = enclose(Bistable(), state, outer, np.array([0.005]), [FIRST])
    assert attracting.contracts[0]
    # Φ' = 8 z (1 − z), so I − Φ' and J = 0 at h = 0 (h' = z h, with dz/dh times h = 0, plus z)
    z = outer[0, 0]
    assert attracting.singular_value[0] <= 1 - 8 * z * (1 - z)
    assert attracting.entries[0].contains(z)


def test_a_ball_around_three_fixed_points_is_refused() -> None:
    bounds = enclose(
        Bistable(), {"h": Ball.exact(np.zeros((1, 1)))}, np.array([[0.5]]), np.array([0.6]), [FIRST]
    )
    assert not bounds.exists[0]
    assert not bounds.newton_factor[0] < 1


def test_a_non_normal_step_contracts_in_a_high_power() -> None:
    A = np.array([[0.5, 100.0], [0.0, 0.5]])
    system = Affine(A, np.zeros((2, 1)), np.zeros((1, 2)), np.array([0.5]))
    bounds = enclose(system, {"h": Ball.exact(np.ones((1, 1)))}, np.zeros((1, 2)), np.array([1.0]), [FIRST])
    k = int(bounds.power[0])
    assert k == 16  # ‖A^8‖_∞ = 2^-8 + 800 · 2^-7 is above 1, ‖A^16‖_∞ = 2^-16 + 1600 · 2^-15 is not
    assert bounds.power_norm[0] == pytest.approx(np.abs(np.linalg.matrix_power(A, k)).sum(1).max(), rel=1e-9)


def test_newton_steps_reach_the_fixed_point() -> None:
    state = {"h": Ball.exact(np.zeros((1, 1)))}
    residual, _ = approximate_slopes(Bistable(), state, refine(Bistable(), state, np.array([[0.9]])))
    assert np.abs(residual).max() < 1e-15


@dataclass
class Explicit:
    """h' = λ ⊙ h + u without a latent; ``reads`` lets λ read h, times ``weight``."""

    weight: float = 0.0
    latent_size: int = 0
    damping: float = 1.0
    blocks: tuple[str, ...] = ("h",)

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Update]]:
        h = _seeded(state["h"], directions, latent.columns, 0)
        constant = Dual.constant(Ball.exact(np.full((1, 2), 0.5)), latent.columns)
        decay = constant + h.scaled(Ball.exact(self.weight)) if self.weight else constant
        return latent, [Update(decay, constant)]


def test_independence_of_all_real_h_is_proved_only_where_it_holds() -> None:
    anywhere = {"h": Ball.around(np.zeros((1, 2)), np.inf)}
    somewhere = {"h": Ball.around(np.zeros((1, 2)), 1.0)}
    assert independent_of_state(Explicit(), anywhere)[0].tolist() == [True]
    # However weak the dependence is, the enclosure of the derivative is not exactly zero.
    for weight in (1.0, 1e-300):
        assert independent_of_state(Explicit(weight), somewhere)[0].tolist() == [False]


def test_a_model_with_a_latent_is_not_asked_for_independence() -> None:
    with pytest.raises(InputError, match="latent_size is 1"):
        independent_of_state(Bistable(), {"h": Ball.exact(np.zeros((1, 1)))})
