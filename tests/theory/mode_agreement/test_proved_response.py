"""Bounds over sets against the response at many ω and states, by NumPy in floating point."""

import numpy as np
import pytest

from automata.errors import InputError
from theory.mode_agreement import bound_responses
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers import Cover

DAMPING = 0.8
RNG = np.random.default_rng(0)
Z_OF_Z, Z_OF_S = 0.4 * RNG.normal(size=(3, 3)), 0.5 * RNG.normal(size=(3, 2))
S_OF_Z, S_OF_S = 0.5 * RNG.normal(size=(2, 3)), np.array([[0.6, 0.2], [0.0, 0.5]])


class LinearLoop:
    """Φ and G linear, so that one matrix J(ω) holds for every state."""

    def advance(self, latent: Dual, state: Dual, _tokens: object) -> tuple[Dual, Dual]:
        image = latent.mapped(Ball.exact(Z_OF_Z)) + state.mapped(Ball.exact(Z_OF_S))
        return image, latent.mapped(Ball.exact(S_OF_Z)) + state.mapped(Ball.exact(S_OF_S))

    def logits(self, latent: Dual) -> Dual:
        return latent


def largest_norm(metric: np.ndarray, radius: float) -> float:
    M = (1 - DAMPING) * np.eye(3) + DAMPING * Z_OF_Z
    norms = []
    for omega in radius * np.exp(1j * np.linspace(0, 2 * np.pi, 721)):
        J = S_OF_S + omega * S_OF_Z @ np.linalg.solve(np.eye(3) - omega * M, DAMPING * Z_OF_S)
        norms.append(np.linalg.norm(metric @ J @ np.linalg.inv(metric), 2))
    return float(max(norms))


def bound_of(metric: np.ndarray, radius: float) -> float:
    none, step, inverse = np.zeros((1, 1), int), np.zeros(1, int), np.linalg.inv(metric)
    cover = Cover(np.zeros((1, 2)), metric[None], inverse[None], np.ones(1), none, none, np.zeros((1, 1, 3)))
    return float(bound_responses(LinearLoop(), DAMPING, cover, np.ones(1), step, step, radius)[0])


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.1])
@pytest.mark.parametrize(
    "metric", [np.eye(2), np.array([[3.0, 1.0], [0.0, 0.7]])], ids=["identity", "skewed"]
)
def test_bounds_hold_and_are_sharp_enough(metric: np.ndarray, radius: float) -> None:
    bound = bound_of(metric, radius)
    expected = largest_norm(metric, radius)
    assert bound >= expected
    # the gap between points costs δ Σ k r^k ‖C_k‖ with δ = 0.05, the norms of powers 2%; else norms are added
    if bound >= 1:
        assert bound <= 1.3 * expected


def test_an_iteration_that_may_not_contract_proves_nothing() -> None:
    assert not np.isfinite(bound_of(np.eye(2), 20.0))
    with pytest.raises(InputError, match="radius is 0"):
        bound_of(np.eye(2), 0.0)
