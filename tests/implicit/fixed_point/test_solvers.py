"""A table of problems with known fixed points × a table of solvers."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from implicit.fixed_point import (
    Anderson,
    DampedPicard,
    Dependence,
    FixedPointProblem,
    Solver,
    Stopping,
    solve,
)
from tests.refusals import refusals

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A self-map of one sequence, its fixed point, and a bound on ‖(I − ∂zΦ)⁻¹‖₂ near it."""

    function: Callable[[Tensor], Tensor]
    fixed_point: Matrix
    condition: float
    dependence: Dependence = Dependence.OWN
    start: float = 0.0


def linear(matrix: Matrix, shift: Matrix, tokens: int = 1, dependence: Dependence = Dependence.OWN) -> Known:
    """Build z ↦ M z + b on the flattened tokens."""
    identity = np.eye(len(matrix))
    weight, bias = torch.from_numpy(matrix), torch.from_numpy(shift)
    return Known(
        lambda z: (z.flatten(1) @ weight.T + bias).view_as(z),
        np.asarray(np.linalg.solve(identity - matrix, shift), np.float64).reshape(tokens, -1),
        float(np.linalg.norm(np.linalg.inv(identity - matrix), 2)),
        dependence,
    )


def block_causal(tokens: int, features: int, strength: float) -> Matrix:
    """Draw a matrix in which a token sees itself and earlier tokens; its own block has norm `strength`."""
    rng = np.random.default_rng(3)
    matrix = 0.3 * rng.standard_normal((tokens, features, tokens, features)) / features
    for t in range(tokens):
        own = matrix[t, :, t]
        matrix[t, :, t] = strength * own / np.linalg.norm(own, 2)
        matrix[t, :, t + 1 :] = 0
    return matrix.reshape(tokens * features, -1)


RNG = np.random.default_rng(0)
SHIFT = RNG.standard_normal(6)
ORTHOGONAL = np.linalg.qr(RNG.standard_normal((6, 6)))[0]
SKEWED = ORTHOGONAL @ np.diag([1, 2, 4, 1, 2, 4])  # condition number 4
SPECTRUM = np.diag([0.9, 0.5, 0.0, -0.3, -0.6, 0.2])
MATRICES = {
    "symmetric": ORTHOGONAL @ SPECTRUM @ ORTHOGONAL.T,
    "non-normal": SKEWED @ SPECTRUM @ np.linalg.inv(SKEWED),
}
QUARTER_TURN = 0.9 * np.kron(np.eye(3), np.array([[0.0, -1.0], [1.0, 0.0]]))
DOTTIE = 0.7390851332151607  # cos z = z

PROBLEMS = {
    "constant": linear(np.zeros((6, 6)), SHIFT),
    **{name: linear(matrix, SHIFT) for name, matrix in MATRICES.items()},
    "rotation": linear(QUARTER_TURN, SHIFT),
    "slow": linear(np.diag([0.98, 0.97]), np.ones(2)),
    "cosine": Known(torch.cos, np.full((1, 3), DOTTIE), 1.0, start=0.2),
    "two-tokens-apart": Known(torch.cos, np.full((2, 3), DOTTIE), 1.0, Dependence.OWN, start=0.2),
    "babylonian": Known(lambda z: (z + 2 / z) / 2, np.full((1, 2), math.sqrt(2)), 1.1, start=3.0),
    "babylonian-from-below": Known(
        lambda z: (z + 2 / z) / 2, np.full((1, 2), -math.sqrt(2)), 1.1, start=-3.0
    ),
    "causal": linear(block_causal(8, 3, 0.7), RNG.standard_normal(24), 8, Dependence.CAUSAL),
    "anticausal": linear(block_causal(8, 3, 0.7).T, RNG.standard_normal(24), 8, Dependence.ANTICAUSAL),
}
SOLVERS: dict[str, Solver] = {
    "picard-1.0": DampedPicard(1.0),
    "picard-0.8": DampedPicard(0.8),
    "picard-0.3": DampedPicard(0.3),
    "anderson-2": Anderson(memory=2),
    "anderson-5": Anderson(memory=5),
    "anderson-5-damped": Anderson(memory=5, damping=0.6),
}
TIGHT = Stopping(rtol=1e-10, max_iterations=4000)


def start_of(known: Known, batch: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.full((batch, *known.fixed_point.shape), known.start, dtype=dtype)


# Every problem has half of the solvers, one of Picard at least and one of Anderson; every solver half of
# the problems.
@pytest.mark.parametrize(
    ("known", "solver"),
    [
        pytest.param(known, solver, id=f"{name}-{how}")
        for row, (name, known) in enumerate(PROBLEMS.items())
        for column, (how, solver) in enumerate(SOLVERS.items())
        if (row + column) % 2
    ],
)
def test_the_known_fixed_point_is_reached_and_its_account_is_honest(known: Known, solver: Solver) -> None:
    problem = FixedPointProblem(known.function, known.dependence)
    solution = solve(problem, solver, TIGHT, start_of(known))
    assert solution.converged.all()
    assert (solution.residual <= TIGHT.rtol * solution.value.norm(dim=-1)).all()
    error = np.linalg.norm(solution.value[0].numpy() - known.fixed_point)
    # z − z* = (I − M)⁻¹ (z − Φ(z)): the error is at most the condition times the residual; 1.01 for the
    # curvature of the non-linear maps, and the rounding of order one in float64.
    assert error <= 1.01 * known.condition * solution.residual.norm().item() + 1e-14 * known.condition
    for limit in (1, 2, 3, 7, 20):
        solution = solve(problem, solver, Stopping(rtol=1e-6, max_iterations=limit), start_of(known))
        measured = (known.function(solution.value) - solution.value).norm(dim=-1)
        torch.testing.assert_close(solution.residual, measured, rtol=0, atol=0)  # the very same evaluation
        assert (solution.iterations <= limit).all()
        met = measured <= 1e-6 * solution.value.norm(dim=-1)
        assert (met | ~solution.converged).all()
        assert (solution.iterations[~solution.converged] == limit).all()
        if known.dependence is Dependence.OWN:
            assert torch.equal(met, solution.converged)


def affine(rate: float) -> FixedPointProblem:
    return FixedPointProblem(lambda z: rate * z + 1)


@pytest.mark.parametrize("damping", [1.0, 0.8, 0.5, 0.1])
def test_picard_takes_the_predicted_number_of_evaluations(damping: float) -> None:
    """On z ↦ a z + 1 from 0 the iterates are z* (1 − q^k) with q = 1 − τ (1 − a), if |q| < 1."""
    for rate in (0.9, 0.5, 0.0, -0.5, -0.99, -2.0):
        contraction = 1 - damping * (1 - rate)
        steps = np.arange(2000 if abs(contraction) < 1 else 200)
        iterates = (1 - contraction**steps) / (1 - rate)
        within = np.abs(rate * iterates + 1 - iterates) <= 1e-4 * np.abs(iterates)
        solution = solve(
            affine(rate),
            DampedPicard(damping),
            Stopping(rtol=1e-4, max_iterations=len(steps)),
            torch.zeros(1, 1, 1, dtype=torch.float64),
        )
        assert bool(solution.converged.all()) is (abs(contraction) < 1)
        if abs(contraction) < 1:
            assert solution.iterations.item() == steps[within][0] + 1


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_map_without_a_fixed_point_is_never_reported_converged(solver: Solver) -> None:
    start = torch.zeros(1, 3, 2, dtype=torch.float64)
    stopping = Stopping(rtol=1e-9, max_iterations=300)
    assert not solve(FixedPointProblem(lambda z: z + 1), solver, stopping, start).converged.any()


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_start_at_the_fixed_point_stays_there_and_float32_reaches_its_rounding(solver: Solver) -> None:
    start = torch.full((2, 3, 4), 2.0, dtype=torch.float64)
    solution = solve(FixedPointProblem(lambda z: z / 2 + 1), solver, Stopping(rtol=0), start)
    assert torch.equal(solution.value, start)
    assert (solution.iterations == 1).all()
    assert (solution.residual == 0).all()
    for name in ("symmetric", "causal"):
        known = PROBLEMS[name]

        def in_float32(z: Tensor, known: Known = known) -> Tensor:
            return known.function(z.double()).float()

        problem = FixedPointProblem(in_float32, known.dependence)
        stopping = Stopping(rtol=1e-5, max_iterations=2000)
        solution = solve(problem, solver, stopping, start_of(known, dtype=torch.float32))
        assert solution.converged.all(), name
        error = np.linalg.norm(solution.value[0].double().numpy() - known.fixed_point)
        # Residuals of 1e-5 times the condition, and the rounding of the residual itself.
        assert error <= 2 * known.condition * 1e-5 * np.linalg.norm(known.fixed_point), name


def gmres_iterate(matrix: Matrix, shift: Matrix, steps: int) -> Matrix:
    """Minimise ‖b − (I − M) z‖ over the Krylov space of dimension `steps`, from z = 0."""
    system = np.eye(len(matrix)) - matrix
    krylov = np.stack([np.linalg.matrix_power(system, k) @ shift for k in range(steps)], axis=1)
    basis = np.linalg.qr(krylov)[0]
    return basis @ np.linalg.lstsq(system @ basis, shift, rcond=None)[0]


@pytest.mark.parametrize("name", MATRICES)
def test_anderson_on_a_linear_map_is_gmres(name: str) -> None:
    """With unlimited memory z_{k+1} = Φ(z_k of GMRES), Walker & Ni 2011, Theorem 2.2: it ends after n + 2."""
    matrix = MATRICES[name]
    problem = FixedPointProblem(PROBLEMS[name].function)
    solver = Anderson(memory=20, regularization=0.0)
    start = start_of(PROBLEMS[name])
    for steps in range(1, 6):
        solution = solve(problem, solver, Stopping(rtol=0, max_iterations=steps + 2), start)
        expected = matrix @ gmres_iterate(matrix, SHIFT, steps) + SHIFT
        # The normal equations square the condition of the residuals: 1e-16 becomes 1e-8 at worst.
        np.testing.assert_allclose(solution.value[0, 0].numpy(), expected, rtol=1e-6, atol=1e-7)
    ended = solve(problem, solver, Stopping(rtol=1e-7), start)
    assert ended.converged.all()
    assert ended.iterations.item() <= 6 + 2


def history(*residuals: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Iterates at 0 with these residuals, a list of ``[tokens][features]`` for one sequence."""
    stacked = torch.tensor(residuals, dtype=torch.float64)[:, None]
    return torch.zeros_like(stacked), stacked


def test_a_token_that_is_kept_as_it_is_has_no_say_in_the_weights() -> None:
    solver = Anderson(regularization=0.0)
    z = torch.zeros(1, 2, 2, dtype=torch.float64)
    active = torch.tensor([[True, False]])
    alone, _ = solver.step(
        z[:, :1], torch.tensor([[[0.5, 1.0]]], dtype=torch.float64), active[:, :1], history([[1.0, 0.0]])
    )
    for other in (0.0, 3.0, -40.0):
        change = torch.tensor([[[0.5, 1.0], [other, other]]], dtype=torch.float64)
        mixed, (_, residuals) = solver.step(z, change, active, history([[1.0, 0.0], [0.0, 0.0]]))
        assert torch.equal(mixed[:, :1], alone)
        assert not residuals[-1, :, 1].any()  # nor in any later step
    # min |α (1, 0) + (1 − α) (0.5, 1)|: α = 3/5, which leaves (0.8, 0.4)
    torch.testing.assert_close(alone[0, 0], torch.tensor([0.8, 0.4], dtype=torch.float64))


@pytest.mark.parametrize("regularization", [0.0, 1e-3, 1.0])
def test_regularization_is_relative_to_the_largest_entry_of_the_gram_matrix(regularization: float) -> None:
    first, second = np.array([2.0, 0.0]), np.array([1.0, 1.0])
    gram = np.array([[first @ first, first @ second], [first @ second, second @ second]])
    weights = np.linalg.solve(gram + regularization * 4.0 * np.eye(2), np.ones(2))
    weights /= weights.sum()
    z, change = torch.zeros(1, 1, 2, dtype=torch.float64), torch.from_numpy(second).view(1, 1, 2)
    mixed, _ = Anderson(regularization=regularization).step(
        z, change, torch.ones(1, 1, dtype=torch.bool), history([first.tolist()])
    )
    np.testing.assert_allclose(mixed[0, 0].numpy(), weights @ np.stack([first, second]), rtol=1e-12)


def test_a_singular_system_falls_back_to_the_damped_step_in_its_own_sequence_only() -> None:
    """Two equal residuals have no unique weights; the sequence beside them has."""
    solver = Anderson(regularization=0.0, damping=0.5)
    regular, singular = [[1.0, 0.0]], [[0.5, 1.0]]
    latents = torch.zeros(1, 2, 1, 2, dtype=torch.float64)
    past = torch.tensor([[regular, singular]], dtype=torch.float64)
    change = torch.tensor([[[0.5, 1.0]], [[0.5, 1.0]]], dtype=torch.float64)
    mixed, _ = solver.step(latents[0], change, torch.ones(2, 1, dtype=torch.bool), (latents, past))
    # as above, halved by the damping; and half of the last residual
    torch.testing.assert_close(mixed[0, 0], torch.tensor([0.4, 0.2], dtype=torch.float64))
    torch.testing.assert_close(mixed[1, 0], torch.tensor([0.25, 0.5], dtype=torch.float64))


def test_the_history_is_as_long_as_the_memory() -> None:
    solver, problem = Anderson(memory=3), PROBLEMS["symmetric"]
    latent = start_of(problem)
    memory = solver.start(latent)
    for step in range(1, 6):
        change = problem.function(latent) - latent
        latent, memory = solver.step(latent, change, torch.ones(1, 1, dtype=torch.bool), memory)
        assert [len(part) for part in memory] == [min(step, 3)] * 2


test_bad_options_are_refused = refusals(
    (lambda: DampedPicard(0.0), "^damping is 0.0; give a number above 0 and at most 1$"),
    (lambda: DampedPicard(1.5), "^damping is 1.5; give a number above 0 and at most 1$"),
    (lambda: DampedPicard(math.nan), "^damping is nan; give a number above 0 and at most 1$"),
    (lambda: Anderson(damping=-0.1), "^damping is -0.1; give a number above 0 and at most 1$"),
    (lambda: Anderson(memory=1), "^memory is 1; Anderson mixing needs at least 2 iterates$"),
    (lambda: Anderson(regularization=-1.0), "^regularization is -1.0; give a number of at least 0$"),
    (lambda: Stopping(rtol=-1e-3), "^rtol is -0.001 and atol 0.0; give tolerances of at least 0$"),
    (lambda: Stopping(atol=-1.0), "^rtol is 0.0001 and atol -1.0; give tolerances of at least 0$"),
    (lambda: Stopping(rtol=math.nan), "^rtol is nan and atol 0.0; give tolerances of at least 0$"),
    (lambda: Stopping(max_iterations=0), r"^max_iterations is 0; give a number in 1 … 10{9}$"),
    (lambda: Stopping(max_iterations=2.5), "^max_iterations is 2.5; give a whole number$"),  # type: ignore[arg-type]
    (lambda: DampedPicard("1"), "^damping is '1'; give a number$"),  # type: ignore[arg-type]
)
