"""The loop: every token ends by itself, whatever else is in the batch, and the progress of it is honest."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import (
    Anderson,
    DampedPicard,
    Dependence,
    FixedPointError,
    FixedPointProblem,
    Solution,
    Solver,
    Status,
    Stopping,
    solve,
    unroll,
)
from implicit.fixed_point.loop import IterationState
from implicit.modes import SequenceSolution

SOLVERS: dict[str, Solver] = {"picard": DampedPicard(0.9), "anderson": Anderson(memory=4)}
STOPPING = Stopping(rtol=1e-9, max_iterations=500)
both_solvers = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def causal_map(tokens: int = 6, features: int = 3) -> tuple[Tensor, Tensor]:
    """Draw a causal mixing of tokens, contracting on its diagonal, and a rotation of features."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(tokens, tokens, generator=generator, dtype=torch.float64).tril(-1) * 0.3
    mixing += torch.diag(torch.linspace(0.3, 0.8, tokens, dtype=torch.float64))
    turned = torch.linalg.qr(torch.randn(features, features, generator=generator, dtype=torch.float64)).Q
    return mixing, turned


def causal_problem(shift: Tensor) -> FixedPointProblem:
    """Build z_t ↦ tanh(Σ_{s ≤ t} M_ts R z_s) + b_t: a contraction in each token's own latent."""
    mixing, turned = causal_map()
    return FixedPointProblem(lambda z: torch.tanh(mixing @ (z @ turned.T)) + shift, Dependence.CAUSAL)


def affine(rates: Tensor) -> FixedPointProblem:
    return FixedPointProblem(lambda z: rates * z + 1)


def random_shift(batch: int, tokens: int = 6, features: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, tokens, features, generator=generator, dtype=torch.float64)


@both_solvers
def test_a_sequence_is_solved_alone_as_in_a_batch(solver: Solver) -> None:
    shift = random_shift(5) * torch.tensor([0.1, 1, 3, 0.0, 10], dtype=torch.float64)[:, None, None]
    together = solve(causal_problem(shift), solver, STOPPING, torch.zeros_like(shift))
    assert len(set(together.iterations[:, -1].tolist())) > 2  # they do end at different times
    for k in range(5):
        own = shift[k : k + 1]
        alone = solve(causal_problem(own), solver, STOPPING, torch.zeros_like(own))
        assert torch.equal(alone.iterations, together.iterations[k : k + 1])
        assert torch.equal(alone.status, together.status[k : k + 1])
        # Alone and in a batch the matrix products may be summed in another order: float64 rounding.
        torch.testing.assert_close(alone.value, together.value[k : k + 1], rtol=1e-10, atol=1e-12)


@both_solvers
def test_nan_in_one_sequence_leaves_the_others_as_they_are(solver: Solver) -> None:
    shift = random_shift(3)
    clean = solve(causal_problem(shift), solver, STOPPING, torch.zeros_like(shift))
    poisoned_shift = shift.clone()
    poisoned_shift[1, 2] = torch.nan
    poisoned = solve(causal_problem(poisoned_shift), solver, STOPPING, torch.zeros_like(shift))
    for part in ("value", "iterations", "residual", "status"):
        assert torch.equal(getattr(poisoned, part)[[0, 2]], getattr(clean, part)[[0, 2]]), part
    assert (poisoned.status[1, 2:] == Status.NON_FINITE).all()
    assert poisoned.converged[1, :2].all()
    assert poisoned.iterations.max() <= clean.iterations.max() + 1  # nothing waits for what cannot converge


def test_a_latent_whose_squares_overflow_is_solved_alone_as_beside_another() -> None:
    fixed_point = torch.stack([torch.full((1, 4), 3e19), torch.zeros(1, 4)])

    def iterations(rows: int) -> int:
        problem = FixedPointProblem(lambda z: z / 2 + fixed_point[:rows] / 2)
        start = torch.zeros(rows, 1, 4)
        return int(solve(problem, DampedPicard(1.0), Stopping(rtol=1e-3), start).iterations[0])

    assert iterations(1) == iterations(2)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@both_solvers
def test_a_token_that_becomes_non_finite_leaves_its_neighbours(solver: Solver, bad: float) -> None:
    evaluations = 0

    def function(z: Tensor) -> Tensor:
        nonlocal evaluations
        evaluations += 1
        image = z / 2 + 1
        if evaluations >= 3:
            image = image.index_put((torch.tensor(0), torch.tensor(1)), torch.tensor(bad, dtype=z.dtype))
        return image

    solution = solve(FixedPointProblem(function), solver, STOPPING, torch.zeros(2, 3, 2, dtype=torch.float64))
    assert solution.status[0, 1] == Status.NON_FINITE
    assert solution.iterations[0, 1] == 3
    assert solution.value.isfinite().all()  # the last finite iterate is kept
    others = torch.ones(2, 3, dtype=torch.bool)
    others[0, 1] = False
    assert solution.converged[others].all()
    torch.testing.assert_close(
        solution.value[others], torch.full((5, 2), 2.0, dtype=torch.float64), rtol=1e-8, atol=0
    )


def test_a_causal_token_waits_for_the_earlier_ones_and_an_anticausal_one_for_the_later() -> None:
    rates = torch.tensor([0.2, 0.9, 0.5], dtype=torch.float64)[None, :, None]
    start = torch.zeros(1, 3, 1, dtype=torch.float64)

    def iterations(dependence: Dependence) -> list[int]:
        problem = FixedPointProblem(lambda z: rates * z + 1, dependence)
        return solve(problem, DampedPicard(1.0), STOPPING, start).iterations[0].tolist()

    fast, slow, middle = iterations(Dependence.OWN)
    assert fast < middle < slow
    assert iterations(Dependence.CAUSAL) == [fast, slow, slow]
    assert iterations(Dependence.ANTICAUSAL) == [slow, slow, middle]


@pytest.mark.parametrize("run", [solve, partial(unroll, iterations=30)], ids=["solve", "unroll"])
@pytest.mark.parametrize(
    ("dependence", "converged"),
    [
        (Dependence.OWN, [True, False, True]),
        (Dependence.CAUSAL, [True, False, False]),
        (Dependence.ANTICAUSAL, [False, False, True]),
    ],
)
def test_a_token_that_never_converges_holds_back_those_that_depend_on_it(
    run: Callable[..., Solution], dependence: Dependence, converged: list[bool]
) -> None:
    rates = torch.tensor([0.5, -1.0, 0.5], dtype=torch.float64)[None, :, None]  # the middle one oscillates
    problem = FixedPointProblem(lambda z: rates * z + 1, dependence)
    solution = run(problem, DampedPicard(1.0), Stopping(rtol=1e-6), torch.zeros_like(rates))
    assert solution.converged[0].tolist() == converged


def test_the_self_map_is_evaluated_as_often_as_the_slowest_token_needs() -> None:
    evaluations = 0

    def function(z: Tensor) -> Tensor:
        nonlocal evaluations
        evaluations += 1
        return 0.5 * z + 1

    solution = solve(FixedPointProblem(function), DampedPicard(1.0), Stopping(), torch.zeros(2, 2, 1))
    assert evaluations == int(solution.iterations.max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_tolerance_that_the_element_type_cannot_resolve_is_raised_and_said(dtype: torch.dtype) -> None:
    """The iteration of cos ends in a cycle of rounding, at 0.739."""
    start, name = torch.zeros(1, 2, 3, dtype=dtype), str(dtype).removeprefix("torch.")
    problem, stopping = FixedPointProblem(torch.cos), Stopping(rtol=1e-17)
    with pytest.warns(UserWarning, match=f"rtol is 1e-17, which {name} cannot resolve"):
        solution = solve(problem, DampedPicard(1.0), stopping, start)
    assert solution.converged.all()
    assert int(solution.iterations.max()) < 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exactly = solve(problem, DampedPicard(1.0), Stopping(rtol=0.0, max_iterations=7), start)
    assert (exactly.iterations == 7).all()


@pytest.mark.parametrize("scale", [1e-37, 1e-24, 1e30], ids=str)
@pytest.mark.parametrize("power", [1, 8], ids=["float32", "float64"])
def test_norms_whose_squares_vanish_or_overflow_are_right(scale: float, power: int) -> None:
    """z = z / 2 + c, in units in which ‖z‖² is no float."""
    dtype = torch.float32 if power == 1 else torch.float64
    shift = torch.full((1, 1, 4), scale, dtype=dtype) ** power
    problem = FixedPointProblem(lambda z: z / 2 + shift)
    found = [
        solve(problem, DampedPicard(1.0), Stopping(rtol=1e-3, max_iterations=limit), torch.zeros_like(shift))
        for limit in (1, 4, 99)
    ]
    assert [solution.status.item() for solution in found] == [1, 1, 0]
    torch.testing.assert_close(found[0].residual, shift.sum(-1) / 2, rtol=1e-6, atol=0)
    assert found[2].iterations.item() == 10  # 2^-9 is above the tolerance, 2^-10 below
    assert 0 < found[2].relative_residual.item() < 1e-3


@pytest.mark.parametrize(("rtol", "atol"), [(1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-2)])
def test_the_tolerance_is_absolute_plus_relative(rtol: float, atol: float) -> None:
    value = torch.tensor([[[3.0, 4.0]]])
    bound = atol + rtol * 5
    residual = torch.tensor([[0.999 * bound]])
    assert Stopping(rtol, atol).is_met(value, residual).item()
    assert not Stopping(rtol, atol).is_met(value, residual * 1.01).item()
    assert not Stopping(rtol, atol).is_met(value, torch.tensor([[torch.nan]])).item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_token_that_is_done_is_kept_to_the_bit_and_others_go_on(dtype: torch.dtype) -> None:
    number = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    limits, generator = torch.iinfo(number), torch.Generator().manual_seed(0)
    latent, following = (
        torch.randint(limits.min, limits.max, (3, 5, 7), generator=generator, dtype=number).view(dtype)
        for _ in range(2)
    )
    for tensor in (latent, following):
        tensor[0, 1, 0], tensor[1, 1, 0], tensor[2, 2, 0] = torch.nan, torch.inf, -0.0
    status = torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1], [2, 1, 0, 1, 2]], dtype=torch.int8)
    advanced = IterationState(torch.zeros(3, 5), torch.zeros(3, 5), status).advance(latent, following)
    expected = torch.where((status == 1)[..., None], following.view(number), latent.view(number))
    assert torch.equal(advanced.view(number), expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # forward mode
def test_derivatives_pass_through_the_loop_where_tokens_are_done_at_different_times() -> None:
    """The gradient of z = r z + c, solved until r^k < rtol, is (1 − r^k) / (1 − r) in every mode."""
    rate, start, ones = torch.tensor([0.1, 0.9]).view(2, 1, 1), torch.zeros(2, 1, 4), torch.ones(2, 1, 4)
    iterations = torch.tensor([4, 45]).view(2, 1, 1) - 1

    def solved(shift: Tensor) -> Tensor:
        problem = FixedPointProblem(lambda z: rate * z + shift)
        return solve(problem, DampedPicard(1.0), Stopping(rtol=1e-3), start).value

    expected = ((1 - rate**iterations) / (1 - rate)).expand(2, 1, 4)
    forward = torch.func.jvp(solved, (ones,), (ones,))[1]
    backward = torch.func.grad(lambda shift: solved(shift).sum())(ones)
    nested = torch.func.grad(lambda y: torch.func.grad(lambda c: (solved(c) * y).sum())(ones).sum())(ones)
    for found in (forward, backward, nested):
        torch.testing.assert_close(found, expected)


def test_a_fixed_number_of_iterations_can_be_mapped_over() -> None:
    rate = torch.tensor([0.1, 0.9]).view(2, 1, 1)

    def last(shift: Tensor) -> Tensor:
        problem = FixedPointProblem(lambda z: rate * z + shift)
        return unroll(problem, DampedPicard(1.0), Stopping(), torch.zeros(2, 1, 4), 4).value

    shifts = torch.arange(24.0).view(3, 2, 1, 4)
    torch.testing.assert_close(torch.func.vmap(last)(shifts), torch.stack([last(shift) for shift in shifts]))


def test_an_image_of_another_shape_is_refused() -> None:
    problem = FixedPointProblem(lambda z: z[:1] / 2)
    for run in (solve, partial(unroll, iterations=3)):
        with pytest.raises(InputError, match=r"shape \(1, 1, 4\); it must be that of z, \(2, 1, 4\)"):
            run(problem, DampedPicard(), Stopping(), torch.zeros(2, 1, 4))


def solution_with(status: list[int]) -> Solution:
    count = len(status)
    value = torch.full((1, count, 4), 2.0)
    return Solution(
        value,
        torch.arange(count)[None],
        torch.full((1, count), 0.5),
        torch.tensor([status], dtype=torch.int8),
    )


def test_the_account_of_a_solution() -> None:
    solution = solution_with([0, 1, 0, 2])
    assert solution.converged.tolist() == [[True, False, True, False]]
    assert solution.share_converged == 0.5
    assert solution.relative_residual.tolist() == [[0.125] * 4]  # 0.5 / ‖(2, 2, 2, 2)‖
    assert solution.message().startswith("1 of 4 tokens: the self-map returned NaN or infinity")
    with pytest.raises(FixedPointError, match="no fixed point reached for 1 of 4 tokens: the self-map"):
        solution.require_converged()
    fine = solution_with([0, 0])
    assert fine.require_converged() is fine


def test_convergence_is_taken_back_after_a_token_without_a_fixed_point() -> None:
    solution = solution_with([0, 1, 2])
    assert solution.after(torch.tensor([[True]])).status.tolist() == [[0, 1, 2]]
    assert solution.after(torch.tensor([[False]])).status.tolist() == [[1, 1, 2]]


def test_solutions_of_consecutive_tokens_are_joined_in_order() -> None:
    joined = Solution.concatenate([solution_with([0, 1]), solution_with([2])])
    assert joined.status.tolist() == [[0, 1, 2]]
    assert joined.iterations.tolist() == [[0, 1, 0]]
    assert joined.value.shape == (1, 3, 4)


def test_the_account_of_unrolled_iterations() -> None:
    rates = torch.tensor([0.0, 0.5, 0.9, torch.nan], dtype=torch.float64).view(1, 4, 1).expand(2, 4, 3)
    start = torch.zeros(2, 4, 3, dtype=torch.float64)
    solution = unroll(affine(rates), DampedPicard(1.0), Stopping(rtol=0.2), start, 3)
    assert solution.iterations.tolist() == [[3] * 4] * 2
    # z₃ = 1 + a + a², Φ(z₃) − z₃ = a³ in each of three features; the tolerance is 0.2 (1 + a + a²) √3
    expected = torch.tensor([0.0, 0.125, 0.729], dtype=torch.float64) * 3**0.5
    torch.testing.assert_close(solution.residual[:, :3], expected.expand(2, 3))
    assert solution.status.tolist() == [[0, 0, 1, 2]] * 2
    torch.testing.assert_close(solution.value[0, :3, 0], torch.tensor([1, 1.75, 2.71], dtype=torch.float64))
    relative = solution.relative_residual[1, :3]
    torch.testing.assert_close(relative, torch.tensor([0, 0.125 / 1.75, 0.729 / 2.71], dtype=torch.float64))


def test_a_latent_of_zero_has_a_relative_residual() -> None:
    nothing = torch.zeros(1, 2, dtype=torch.float64)
    residual = torch.tensor([[0.0, 1e-300]], dtype=torch.float64)
    solution = Solution(nothing[..., None], nothing.long(), residual, nothing.to(torch.int8))
    assert solution.relative_residual[0, 0] == 0
    assert 1 < solution.relative_residual[0, 1] < torch.inf


MASK = torch.tensor([[True, True, False, False], [True, False, False, False]])


def sequential(status: Any, iterations: Any, mask: Tensor | None = None) -> SequenceSolution:
    codes, counts = torch.tensor(status, dtype=torch.int8), torch.tensor(iterations)
    value, residual = torch.ones(*codes.shape, 3), torch.zeros(codes.shape)
    return SequenceSolution(value, counts, residual, codes, counts, "sequential", mask=mask)


def test_statistics_leave_padding_out() -> None:
    given = [[0, 1, 0, 0], [0] * 4]
    plain, masked = (sequential(given, given, mask) for mask in (None, MASK))
    assert (plain.share_converged, plain.counted) == (7 / 8, None)
    assert masked.share_converged == 2 / 3
    assert masked.counted is MASK


def test_the_message_counts_the_real_tokens_and_those_behind_the_limit() -> None:
    behind = [[0, 1, 1, 1], [1, 1, 1, 1]]  # padding rests on the token before it
    for mask, given, real in ((None, [[0, 1, 0, 0], [1, 0, 0, 0]], 8), (MASK, behind, 3)):
        message = sequential(given, given, mask).message()
        assert message.startswith(f"2 of {real} tokens (mode sequential, first at position 0): ")
    message = sequential([[0, 1, 1, 1]], [[3, 9, 4, 9]]).message()
    assert message.startswith("3 of 4 tokens")
    assert "reached first at 2 of them, and later tokens rest on these" in message
    solution = replace(
        sequential([[0, 1], [0, 1]], [[3, 9], [3, 4]]), resting=torch.tensor([[0, 0], [0, 1]]) > 0
    )
    assert "reached first at 1 of them" in solution.message()
    assert "; 1 rest on a token that was read before" in solution.message()
    assert ": they rest on a token" in replace(solution, resting=solution.status > 0).message()


def in_half(rates: list[float]) -> FixedPointProblem:
    rate = torch.tensor(rates, dtype=torch.bfloat16).view(-1, 1, 1)
    return FixedPointProblem(lambda z: rate * z + 1)


HALF = Stopping(rtol=0.02, max_iterations=1000)


def test_a_residual_that_stalls_in_half_precision_ends_its_token_alone() -> None:
    start = torch.zeros(3, 1, 1, dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="residuals stall in half precision"):
        found = solve(in_half([-1.0, 0.5, 0.9]), DampedPicard(1.0), HALF, start)
    assert found.status.flatten().tolist() == [1, 0, 0]
    assert found.iterations[0].item() < 60
    for row, rate in ((1, 0.5), (2, 0.9)):
        alone = solve(in_half([rate]), DampedPicard(1.0), HALF, start[:1])
        assert torch.equal(alone.value[0], found.value[row])
        assert alone.iterations[0] == found.iterations[row]
    exact = solve(affine(torch.full((1, 1, 1), -1.0)), DampedPicard(1.0), HALF, torch.zeros(1, 1, 1))
    assert exact.iterations.item() == 1000  # float32 has its limit


@pytest.mark.parametrize("dependence", [Dependence.CAUSAL, Dependence.ANTICAUSAL])
def test_a_token_waits_for_those_before_it_and_ends_with_one_that_stalls(dependence: Dependence) -> None:
    tokens = 90

    def passed_on(z: Tensor) -> Tensor:  # token t is right after t + 1 evaluations
        z = z if dependence is Dependence.CAUSAL else z.flip(1)
        image = torch.cat([torch.ones_like(z[:, :1]), z[:, :-1]], dim=1)
        image = torch.cat([image[:, : tokens - 2], -image[:, tokens - 2 :] - z[:, tokens - 2 :]], dim=1)
        return image if dependence is Dependence.CAUSAL else image.flip(1)

    start = torch.zeros(1, tokens, 1, dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="residuals stall"):
        found = solve(FixedPointProblem(passed_on, dependence), DampedPicard(1.0), HALF, start)
    status = found.status[0].tolist()
    assert (status if dependence is Dependence.CAUSAL else status[::-1]) == [0] * (tokens - 2) + [1, 1]
    assert found.iterations.max() < 250


def test_a_function_that_writes_into_its_argument_is_refused() -> None:
    halved, solver, start = FixedPointProblem(lambda z: z.mul_(0.5)), DampedPicard(1.0), torch.ones(1, 1, 1)
    with pytest.raises(InputError, match="changes z in place"):
        solve(halved, solver, Stopping(), start)
    with torch.inference_mode():  # counts no writes
        assert solve(FixedPointProblem(torch.cos), solver, Stopping(), torch.ones(1, 1, 1)).converged.all()


def test_autocast_decides_what_a_latent_resolves() -> None:
    half = torch.zeros(1, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert Stopping(rtol=1e-4).rtol_for(half.float()) == Stopping(rtol=1e-4).rtol_for(half)
