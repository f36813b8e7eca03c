"""Gradients of the rules against each other, NumPy, finite differences, and the Neumann series."""

import warnings

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
    Solver,
    Stopping,
)
from implicit.gradients import GradientRule, Implicit, Phantom, Unrolled, solve_with_gradient
from tests.implicit.gradients.causal_problems import (
    PICARD,
    TIGHT,
    TOKENS,
    Build,
    causal_problem,
    distance,
    every_problem,
    gradients,
    parameters,
    solved,
)


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
    value = solve_with_gradient(
        problem, solver, Stopping(rtol=1e-10), torch.zeros_like(shift), Implicit()
    ).value
    (gradient,) = torch.autograd.grad(value[0, -1].sum(), shift)
    last = TOKENS - 1
    assert gradient[0, 0].item() == pytest.approx((1 / 3) ** last / (1 / 2) ** (last + 1), rel=1e-8)


def test_an_adjoint_that_does_not_converge_is_warned_about() -> None:
    leaves = parameters()
    value = solved(Implicit(stopping=Stopping(rtol=1e-13, max_iterations=2)), causal_problem, leaves)
    with pytest.warns(
        NotConvergedWarning, match="the implicit gradient is not exact: .* raise max_iterations"
    ):
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
    nothing = FixedPointProblem(torch.ones_like)
    assert not solve_with_gradient(
        nothing, PICARD, Stopping(), torch.zeros(1, 1, 1), Implicit()
    ).value.requires_grad


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
