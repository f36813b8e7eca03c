"""What a gradient rule returns and keeps: value, status, memory; and the options that it refuses."""

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import DampedPicard, Dependence, FixedPointProblem, Solution, Stopping, solve
from implicit.gradients import (
    FactoredImplicit,
    GradientRule,
    Implicit,
    Phantom,
    Unrolled,
    solve_with_gradient,
)
from tests.implicit.gradients.causal_problems import PICARD, TIGHT, causal_problem, parameters, solved


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


def test_phantom_steps_take_the_damping_of_the_solver() -> None:
    def gradient(rule: GradientRule) -> Tensor:
        leaves = parameters()
        value = solved(rule, causal_problem, leaves, solver=DampedPicard(0.3))
        return torch.autograd.grad(value.sum(), leaves[1])[0]

    assert torch.equal(gradient(Phantom(2)), gradient(Phantom(2, 0.3)))
    assert not torch.equal(gradient(Phantom(2)), gradient(Phantom(2, 0.8)))


@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning"  # PyTorch's own, in forward mode
)
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


@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning"  # PyTorch's own, in forward mode
)
@pytest.mark.parametrize("rule", [Implicit(), Implicit(solver=DampedPicard(0.7))])
def test_the_implicit_gradient_under_transforms_of_torch(rule: GradientRule) -> None:
    """z = c z / 3 + c has z = 3 c / (3 − c), z' = 9 / (3 − c)² and z'' = 18 / (3 − c)³."""

    def value(c: Tensor) -> Tensor:
        problem = FixedPointProblem(lambda z: c * z / 3 + c)
        start = torch.zeros(1, 1, 1, dtype=torch.float64)
        return solve_with_gradient(problem, PICARD, Stopping(rtol=1e-14), start, rule).value.sum()

    one = torch.ones((), dtype=torch.float64)
    expected = (
        pytest.approx(1.5, rel=1e-12),
        pytest.approx(9 / 4, rel=1e-12),
        pytest.approx(18 / 8, rel=1e-10),
    )
    assert tuple(part.item() for part in torch.func.jvp(value, (one,), (one,))[:2]) == expected[:2]
    assert torch.func.grad(value)(one).item() == expected[1]
    assert torch.func.grad(torch.func.grad(value))(one).item() == expected[2]


def test_a_phantom_step_that_overflows_leaves_the_value_and_shows_in_the_gradient() -> None:
    c = torch.tensor(1e30, requires_grad=True)
    problem = FixedPointProblem(lambda z: (z - 1) * c * c + 1)
    solution = Solution(torch.full((1, 1, 1), 2.0), *[torch.zeros(1, 1)] * 3)
    value = Phantom(2, 1.0).attach(problem, PICARD, TIGHT, solution).value
    assert value.item() == 2
    assert not torch.autograd.grad(value.sum(), c)[0].isfinite()


@pytest.mark.parametrize(
    ("dependence", "converged"),
    [
        (Dependence.OWN, [True, False, True]),
        (Dependence.CAUSAL, [True, False, False]),
        (Dependence.ANTICAUSAL, [False, False, True]),
    ],
)
def test_the_status_of_unrolled_respects_what_a_token_depends_on(
    dependence: Dependence, converged: list[bool]
) -> None:
    rates = torch.tensor([0.1, -1.0, 0.1], dtype=torch.float64)[None, :, None]
    problem = FixedPointProblem(lambda z: rates * z + 1, dependence)
    start = torch.zeros(1, 3, 1, dtype=torch.float64)
    solution = solve_with_gradient(problem, DampedPicard(1.0), Stopping(rtol=1e-4), start, Unrolled(8))
    assert solution.converged[0].tolist() == converged
    assert (solution.iterations == 8).all()


def saved_for_backward(rule: GradientRule, iterations: int) -> int:
    """Count the numbers that autograd keeps between the forward and the backward pass."""
    count = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal count
        count += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        solved(rule, causal_problem, parameters(), stopping=Stopping(0.0, 0.0, iterations))
    return count


def test_memory_does_not_grow_with_the_iterations_but_unrolled() -> None:
    rules: list[GradientRule] = [Phantom(4), Implicit()]
    for rule in rules:
        assert saved_for_backward(rule, 10) == saved_for_backward(rule, 200) > 0
    pairs: list[tuple[GradientRule, GradientRule]] = [(Phantom(4), Phantom(8)), (Unrolled(10), Unrolled(20))]
    for few, many in pairs:
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


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Unrolled(0), "iterations is 0; give at least 1"),
        (lambda: Phantom(steps=0), "steps is 0; give at least 1"),
        (lambda: Phantom(damping=0.0), "damping is 0.0; give a number above 0 and at most 1"),
        (lambda: Phantom(damping=1.01), "damping is 1.01; give a number above 0 and at most 1"),
        (lambda: Unrolled(2.5), "iterations is 2.5; give a whole number"),  # type: ignore[arg-type]
        (lambda: Phantom(steps=2.5), "steps is 2.5; give a whole number"),  # type: ignore[arg-type]
        (lambda: Phantom(damping="0.8"), "damping is '0.8'; give a number"),  # type: ignore[arg-type]
    ],
)
def test_bad_options_are_refused(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence


def test_the_least_and_the_largest_that_options_allow_are_taken() -> None:
    assert Unrolled(1).iterations == Phantom(1).steps == 1
    assert Phantom(damping=1.0).damping == 1.0
    assert FactoredImplicit(rtol=1e-300).rtol > 0
