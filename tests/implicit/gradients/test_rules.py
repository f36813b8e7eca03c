"""Gradient rules against each other, NumPy, finite differences and series; what they return and keep."""

import warnings
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import (
    Anderson,
    DampedPicard,
    Dependence,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Stopping,
    solve,
)
from implicit.gradients import (
    GradientRule,
    Implicit,
    Phantom,
    Unrolled,
    solve_with_gradient,
)
from tests.refusals import refusals

TOKENS, FEATURES = 5, 3
TIGHT = Stopping(rtol=1e-13, max_iterations=3000)
PICARD = DampedPicard(0.9)


def parameters(seed: int = 0, requires_grad: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a causal mixing of tokens, a matrix of features of norm 0.7, and a shift for two sequences."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.eye(TOKENS, dtype=torch.float64)
    mixing += 0.3 * torch.randn(TOKENS, TOKENS, generator=generator, dtype=torch.float64).tril(-1)
    weight = torch.randn(FEATURES, FEATURES, generator=generator, dtype=torch.float64)
    weight = 0.7 * weight / torch.linalg.matrix_norm(weight, 2)
    shift = torch.randn(2, TOKENS, FEATURES, generator=generator, dtype=torch.float64)
    mixing, weight, shift = (leaf.requires_grad_(requires_grad) for leaf in (mixing, weight, shift))
    return mixing, weight, shift


def causal_problem(mixing: Tensor, weight: Tensor, shift: Tensor) -> FixedPointProblem:
    """Build z_t ↦ tanh(W Σ_{s ≤ t} M_ts z_s + b_t): contracting in each token's own latent."""
    return FixedPointProblem(lambda z: torch.tanh(mixing.tril() @ z @ weight.T + shift), Dependence.CAUSAL)


def own_problem(mixing: Tensor, weight: Tensor, shift: Tensor) -> FixedPointProblem:
    """Build the same without the tokens before: each token is a problem of its own."""
    return FixedPointProblem(lambda z: torch.tanh(mixing.diagonal()[:, None] * (z @ weight.T) + shift))


PROBLEMS = {"causal": causal_problem, "own": own_problem}
Build = Callable[[Tensor, Tensor, Tensor], FixedPointProblem]
every_problem = pytest.mark.parametrize("build", PROBLEMS.values(), ids=PROBLEMS)


def solved(
    rule: GradientRule,
    build: Build,
    leaves: tuple[Tensor, ...],
    solver: Solver = PICARD,
    stopping: Stopping = TIGHT,
) -> Tensor:
    return solve_with_gradient(build(*leaves), solver, stopping, torch.zeros_like(leaves[2]), rule).value


def gradients(rule: GradientRule, build: Build, **options: Solver | Stopping) -> list[Tensor]:
    leaves = parameters()
    return list(torch.autograd.grad(uneven(solved(rule, build, leaves, **options)), leaves))  # type: ignore[arg-type]


def distance(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def uneven(value: Tensor) -> Tensor:
    """Sum with irregular weights, in which the tokens and features count differently."""
    return (value * torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view_as(value)).sum()


def kept_for_backward(call: Callable[[], object]) -> int:
    """Count the numbers that autograd keeps between the forward and the backward pass."""
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        call()
    return sum(tensor.numel() for tensor in kept)


@every_problem
@pytest.mark.parametrize("solver", [PICARD, Anderson(memory=4)], ids=["picard", "anderson"])
def test_implicit_equals_many_unrolled_steps(build: Build, solver: Solver) -> None:
    implicit = gradients(Implicit(), build, solver=solver)
    unrolled = gradients(Unrolled(120), build)  # at most 0.73^120 = 4e-17 of the difference is left
    assert distance(implicit, unrolled) < 1e-9  # residuals of 1e-13 times the condition of I − J


@every_problem
def test_implicit_by_finite_differences(build: Build) -> None:
    def run(mixing: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        return solved(Implicit(), build, (mixing, weight, shift))

    # gradcheck's tolerances: central differences with a step of 1e-6 of solutions exact to 1e-13 err by
    # 1e-7 at most. Fast mode: random directions in and out.
    assert torch.autograd.gradcheck(run, parameters(), fast_mode=True)


def test_unrolled_equals_the_steps_written_out() -> None:
    mixing, weight, shift = leaves = parameters()
    z = torch.zeros_like(shift)
    for _ in range(4):
        z = 0.1 * z + 0.9 * torch.tanh(mixing.tril() @ z @ weight.T + shift)
    torch.testing.assert_close(solved(Unrolled(4), causal_problem, leaves), z, rtol=1e-13, atol=1e-15)


@every_problem
def test_phantom_is_the_neumann_series_of_the_damped_jacobian(build: Build) -> None:
    """The adjoint of k steps is τ Σ_{i<k} Dᵀ^i g with D = (1 − τ) I + τ J: its error falls as D^k does."""
    leaves = parameters()
    problem = build(*leaves)
    fixed_point = solved(Implicit(), build, leaves).detach()
    jacobian = torch.autograd.functional.jacobian(problem.function, fixed_point)
    size = fixed_point.numel()
    damped = 0.2 * np.eye(size) + 0.8 * jacobian.numpy().reshape(size, size)
    weights = np.linspace(-1, 2, size)
    term, adjoint = 0.8 * weights, np.zeros(size)
    for steps in range(1, 25):
        adjoint, term = adjoint + term, damped.T @ term
        if steps in (1, 4, 8, 24):
            expected = adjoint * (1 - fixed_point.flatten().numpy() ** 2)  # ∂Φ/∂b of tanh(… + b)
            shift_gradient = gradients(Phantom(steps, 0.8), build)[2].flatten().numpy()
            np.testing.assert_allclose(shift_gradient, expected, rtol=1e-10, atol=1e-11)  # z* to 1e-13
    exact = gradients(Implicit(), build)
    assert distance(gradients(Phantom(4, 0.8), build), exact) > 1e-3
    assert distance(gradients(Phantom(60, 0.8), build), exact) < 1e-9


@pytest.mark.parametrize("rule", [Phantom(4), Implicit(), Unrolled(4)], ids=lambda rule: type(rule).__name__)
def test_gradients_are_causal_and_sequences_do_not_mix(rule: GradientRule) -> None:
    mixing, weight, shift = parameters()
    together = solved(rule, causal_problem, (mixing, weight, shift))
    (of_both,) = torch.autograd.grad(together.square().sum(), shift, retain_graph=True)
    for k in range(2):
        own = shift[k : k + 1].detach().requires_grad_()
        value = solved(rule, causal_problem, (mixing, weight, own))
        (alone,) = torch.autograd.grad(value.square().sum(), own)
        torch.testing.assert_close(alone[0], of_both[k], rtol=1e-10, atol=1e-12)  # solutions to 1e-13
    (gradient,) = torch.autograd.grad(together[:, 2].sum(), shift)
    assert (gradient[:, 3:] == 0).all()
    assert (gradient[:, :3].norm(dim=-1) > 1e-6).all()


@pytest.mark.parametrize("solver", [DampedPicard(1.0), Anderson(memory=3)], ids=["picard", "anderson"])
def test_the_adjoint_of_a_causal_problem_waits_for_the_later_tokens(solver: Solver) -> None:
    """A loss at the last token reaches the first one only after as many iterations as tokens lie between.

    For z_t = z_t / 2 + z_{t-1} / 3 + b_t the derivative of z_T in b_0 is (1/3)^T / (1/2)^{T+1}.
    """
    before = torch.diag(torch.full((TOKENS - 1,), 1 / 3, dtype=torch.float64), -1)
    shift = torch.ones(1, TOKENS, 1, dtype=torch.float64, requires_grad=True)
    problem = FixedPointProblem(lambda z: z / 2 + before @ z + shift, Dependence.CAUSAL)
    start = torch.zeros_like(shift)
    value = solve_with_gradient(problem, solver, Stopping(rtol=1e-10), start, Implicit()).value
    (gradient,) = torch.autograd.grad(value[0, -1].sum(), shift)
    last = TOKENS - 1
    assert gradient[0, 0].item() == pytest.approx((1 / 3) ** last / (1 / 2) ** (last + 1), rel=1e-8)


def test_an_adjoint_that_does_not_converge_is_warned_about() -> None:
    leaves = parameters()
    value = solved(Implicit(stopping=Stopping(rtol=1e-13, max_iterations=2)), causal_problem, leaves)
    said = "the implicit gradient is not exact: .* raise max_iterations"
    with pytest.warns(NotConvergedWarning, match=said):
        value.sum().backward()
    value = solved(Implicit(solver=Anderson()), causal_problem, leaves)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.sum().backward()


def test_an_adjoint_needs_no_iteration_where_the_loss_does_not_look() -> None:
    leaves = parameters()
    value = solved(Implicit(stopping=Stopping(rtol=0.0, max_iterations=1)), causal_problem, leaves)
    (gradient,) = torch.autograd.grad((0 * value).sum(), leaves[2])  # g = 0 is solved by v = 0 at once
    assert (gradient == 0).all()


def test_a_self_map_that_ignores_its_argument_has_a_gradient() -> None:
    """Construction (a) of the theory: Φ is the constant map, reached in one iteration."""
    shift = torch.tensor([[[2.0]]], requires_grad=True)
    for rule in (Implicit(), Phantom(60), Unrolled(60)):
        problem = FixedPointProblem(lambda z: shift.expand_as(z))
        value = solve_with_gradient(problem, DampedPicard(1.0), Stopping(), torch.zeros(1, 1, 1), rule).value
        (gradient,) = torch.autograd.grad(value.sum(), shift)
        assert gradient.item() == pytest.approx(1, abs=1e-6)  # float32
    for nothing in (torch.ones_like, torch.cos):  # which has any other argument
        problem, start = FixedPointProblem(nothing), torch.zeros(1, 1, 1)
        assert not solve_with_gradient(problem, PICARD, Stopping(), start, Implicit()).value.requires_grad


def test_second_derivatives_of_implicit_are_refused_and_of_unrolled_are_right() -> None:
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    problem = FixedPointProblem(lambda z: a * z + 1)
    start = torch.zeros(1, 1, 1, dtype=torch.float64)
    value = solve_with_gradient(problem, PICARD, TIGHT, start, Implicit()).value
    (first,) = torch.autograd.grad(value.sum(), a, create_graph=True)
    assert first.item() == pytest.approx(1 / 0.5**2, rel=1e-12)
    with pytest.raises(InputError, match="a second derivative is asked for; the implicit gradient has first"):
        torch.autograd.grad(first, a)
    value = solve_with_gradient(problem, DampedPicard(1.0), TIGHT, start, Unrolled(80)).value
    (first,) = torch.autograd.grad(value.sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first, a)
    assert second.item() == pytest.approx(2 / 0.5**3, rel=1e-12)  # d²/da² of 1/(1 − a); 0.5^80 is left


def test_unrolled_anderson_survives_exact_convergence() -> None:
    """Residuals of zero leave its least-squares problem without content."""
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    problem = FixedPointProblem(lambda z: a * z + 1)
    for begin in (0.0, 2.0):
        start = torch.full((1, 1, 1), begin, dtype=torch.float64)
        value = solve_with_gradient(problem, Anderson(), Stopping(), start, Unrolled(30)).value
        assert value.item() == pytest.approx(2, rel=1e-9)
        (gradient,) = torch.autograd.grad(value.sum(), a)
        # Past convergence the weights are not determined; the gradient is that of the last determined step.
        assert gradient.item() == pytest.approx(4, rel=0.01)


def test_a_second_backward_pass_gives_the_same_gradient() -> None:
    leaves = parameters()
    loss = solved(Implicit(), causal_problem, leaves).square().sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    assert distance(list(first), list(second)) == 0


@pytest.mark.parametrize("rule", [Phantom(4), Implicit()], ids=lambda rule: type(rule).__name__)
def test_value_without_grad_and_the_account_of_convergence_are_those_of_the_solve(rule: GradientRule) -> None:
    leaves = parameters()
    start = torch.zeros_like(leaves[2])
    for stopping in (TIGHT, Stopping(rtol=1e-13, max_iterations=5)):
        solution = solve_with_gradient(causal_problem(*leaves), PICARD, stopping, start, rule)
        with torch.no_grad():
            quiet = solve_with_gradient(causal_problem(*leaves), PICARD, stopping, start, rule)
            plain = solve(causal_problem(*leaves), PICARD, stopping, start)
        assert not quiet.value.requires_grad
        assert torch.equal(quiet.value, plain.value)
        for part in ("iterations", "residual", "status"):
            assert torch.equal(getattr(solution, part), getattr(plain, part)), part
    assert not solution.converged.all()


@pytest.mark.parametrize("rule", [Phantom(4), Implicit(), Unrolled(6)], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("limit", [5, 400])
def test_residual_and_status_are_those_of_the_value_returned(rule: GradientRule, limit: int) -> None:
    leaves, stopping = parameters(), Stopping(rtol=1e-2, max_iterations=limit)
    problem = causal_problem(*leaves)
    solution = solve_with_gradient(problem, PICARD, stopping, torch.zeros_like(leaves[2]), rule)
    with torch.no_grad():
        residual = (problem.function(solution.value) - solution.value).norm(dim=-1)
        met = stopping.is_met(solution.value, residual)
    torch.testing.assert_close(solution.residual, residual, rtol=1e-12, atol=0)
    assert met[solution.converged].all()
    assert solution.converged.any()


def test_phantom_steps_at_the_limit_are_those_that_led_to_the_value() -> None:
    """Otherwise the gradient would be that of later latents than the one that the loss is taken of."""
    stopping = Stopping(rtol=1e-12, max_iterations=7)
    found = []
    for rule in (Phantom(6), Unrolled(6)):
        leaves = parameters()
        value = solved(rule, causal_problem, leaves, solver=DampedPicard(0.8), stopping=stopping)
        found.append((value, *torch.autograd.grad(value.square().sum(), leaves)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rule", [Phantom(4), Implicit()], ids=lambda rule: type(rule).__name__)
@pytest.mark.filterwarnings("ignore:residuals stall", "ignore:.*gradient is not exact")
def test_a_value_that_stalls_in_half_precision_is_the_same_without_a_gradient(rule: GradientRule) -> None:
    rate = torch.tensor(-1.0, dtype=torch.bfloat16, requires_grad=True)
    start = torch.zeros(1, 1, 1, dtype=torch.bfloat16)
    problem = FixedPointProblem(lambda z: rate * z + 1)
    arguments = problem, DampedPicard(1.0), Stopping(rtol=0.02, max_iterations=150), start, rule
    recorded = solve_with_gradient(*arguments)
    with torch.no_grad():
        plain = solve_with_gradient(*arguments)
    assert torch.equal(recorded.value, plain.value)
    assert torch.equal(recorded.iterations, plain.iterations)


def test_phantom_steps_take_the_damping_of_the_solver() -> None:
    def gradient(rule: GradientRule) -> Tensor:
        leaves = parameters()
        value = solved(rule, causal_problem, leaves, solver=DampedPicard(0.3))
        return torch.autograd.grad(value.sum(), leaves[1])[0]

    assert torch.equal(gradient(Phantom(2)), gradient(Phantom(2, 0.3)))
    assert not torch.equal(gradient(Phantom(2)), gradient(Phantom(2, 0.8)))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # forward mode
def test_phantom_gradients_of_any_mode_and_order_are_those_of_the_steps() -> None:
    """One undamped step from z* = 3 with Φ(z) = c z / 3 + c: the derivative in c is 2, of its square 12."""
    problem_of = lambda c: FixedPointProblem(lambda z: c * z / 3 + c)  # noqa: E731
    start = torch.full((1, 1, 1), 3.0)

    def value(c: Tensor) -> Tensor:
        solution = Solution(start, *[torch.zeros(1, 1)] * 3)
        return Phantom(1, 1.0).attach(problem_of(c), PICARD, TIGHT, solution).value.sum()

    one = torch.tensor(1.0)
    found = torch.func.jvp(value, (one,), (one,))
    assert [part.item() for part in found[:2]] == [3, 2]
    assert torch.func.grad(lambda c: value(c).square())(one).item() == 12
    assert torch.func.grad(torch.func.grad(lambda c: value(c).square()))(one).item() == 8
    assert torch.func.vmap(torch.func.grad(value))(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # forward mode
@pytest.mark.parametrize("rule", [Implicit(), Implicit(solver=DampedPicard(0.7))])
def test_the_implicit_gradient_under_transforms_of_torch(rule: GradientRule) -> None:
    """z = c z / 3 + c has z = 3 c / (3 − c), z' = 9 / (3 − c)² and z'' = 18 / (3 − c)³."""

    def value(c: Tensor) -> Tensor:
        problem = FixedPointProblem(lambda z: c * z / 3 + c)
        start = torch.zeros(1, 1, 1, dtype=torch.float64)
        return solve_with_gradient(problem, PICARD, Stopping(rtol=1e-14), start, rule).value.sum()

    one = torch.ones((), dtype=torch.float64)
    found = [part.item() for part in torch.func.jvp(value, (one,), (one,))[:2]]
    assert [*found, torch.func.grad(value)(one).item()] == pytest.approx([3 / 2, 9 / 4, 9 / 4], rel=1e-12)
    assert torch.func.grad(torch.func.grad(value))(one).item() == pytest.approx(18 / 8, rel=1e-10)


def test_a_tiny_fixed_point_is_displaced_by_a_share_of_its_own_size() -> None:
    """z = (z² / s²/ 4 + c) s has z = s (2 − 2 √(1 − c)), z' = s / √(1 − c); beyond 3.4 s nothing returns."""

    def value(c: Tensor) -> Tensor:
        problem = FixedPointProblem(lambda z: ((z / 1e-6).square() / 4 + c) * 1e-6)
        start = torch.zeros(1, 1, 1, dtype=torch.float64)
        return solve_with_gradient(problem, PICARD, Stopping(rtol=1e-14), start, Implicit()).value.sum()

    half = torch.tensor(0.5, dtype=torch.float64)
    assert torch.func.grad(value)(half).item() == pytest.approx(2**0.5 * 1e-6, rel=1e-10)


def test_a_phantom_step_that_overflows_leaves_the_value_and_shows_in_the_gradient() -> None:
    c = torch.tensor(1e30, requires_grad=True)
    problem = FixedPointProblem(lambda z: (z - 1) * c * c + 1)
    solution = Solution(torch.full((1, 1, 1), 2.0), *[torch.zeros(1, 1)] * 3)
    value = Phantom(2, 1.0).attach(problem, PICARD, TIGHT, solution).value
    assert value.item() == 2
    assert not torch.autograd.grad(value.sum(), c)[0].isfinite()


def saved_for_backward(rule: GradientRule, iterations: int) -> int:
    stopping = Stopping(0.0, 0.0, iterations)
    return kept_for_backward(lambda: solved(rule, causal_problem, parameters(), stopping=stopping))


def test_memory_does_not_grow_with_the_iterations_but_unrolled() -> None:
    for rule in (Phantom(4), Implicit()):
        assert saved_for_backward(rule, 10) == saved_for_backward(rule, 200) > 0
    for few, many in ((Phantom(4), Phantom(8)), (Unrolled(10), Unrolled(20))):
        assert 1.9 < saved_for_backward(many, 10) / saved_for_backward(few, 10) < 2.2


def test_the_graph_of_implicit_is_freed_with_its_value() -> None:
    images: list[weakref.ref[Tensor]] = []

    def function(z: Tensor) -> Tensor:
        image = torch.tanh(z @ weight)
        images.append(weakref.ref(image))
        return image

    _, weight, shift = parameters()
    value = solve_with_gradient(
        FixedPointProblem(function), PICARD, TIGHT, torch.ones_like(shift), Implicit()
    ).value
    value.sum().backward()
    del value
    assert all(image() is None for image in images)  # by reference counts alone: no cycle keeps it


test_bad_options_are_refused = refusals(
    (lambda: Unrolled(0), "^iterations is 0; give at least 1$"),
    (lambda: Phantom(steps=0), "^steps is 0; give at least 1$"),
    (lambda: Phantom(damping=0.0), "^damping is 0.0; give a number above 0 and at most 1$"),
    (lambda: Unrolled(2.5), "^iterations is 2.5; give a whole number$"),  # type: ignore[arg-type]
)
