"""Contracting problems in three leaves whose gradients every rule has to find."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from implicit.fixed_point import DampedPicard, Dependence, FixedPointProblem, Solver, Stopping
from implicit.gradients import GradientRule, solve_with_gradient

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
