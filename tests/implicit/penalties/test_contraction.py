"""The contraction penalty against the Jacobian itself, and its place in training."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from automata.tasks.registry import make_task
from implicit.fixed_point import FixedPointProblem, Stopping
from implicit.gradients import Phantom
from implicit.modes import SequenceSolution
from implicit.penalties import Solved
from implicit.penalties.contraction import Contraction
from implicit.training.streams import Stream, draw_batch
from tests.small_models import quick_mamba2


def contraction_penalty(
    problem: FixedPointProblem,
    latent: Tensor,
    generator: torch.Generator,
    mask: Tensor | None = None,
    **options: Any,
) -> Tensor:
    model: Any = SimpleNamespace(problem=lambda *_: problem)
    counts = torch.zeros(latent.shape[:2], dtype=torch.long)
    solution = SequenceSolution(latent, counts, latent[..., 0], counts, counts, "simultaneous", mask)
    solved = Solved(model, counts, {}, solution, Phantom(), Stopping(), noise=generator)
    return Contraction(**options).measure(solved)


def test_penalty_estimates_the_frobenius_norm_of_the_jacobian_of_all_tokens() -> None:
    model = quick_mamba2(residual=True)
    tokens, _ = draw_batch(make_task("parity"), 1, 3, 0, Stream.TRAIN, 1)[:2]
    generator = torch.Generator().manual_seed(1)
    latent = torch.randn(1, 3, 8, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        jacobian = jacrev(model.problem(tokens).function)(latent)
    expected = float(jacobian.square().sum() / 3)
    # Copies of the sequence, each with its own direction: one estimate each.
    copies = 4000
    problem = model.problem(tokens.expand(copies, -1))
    latents = latent.expand(copies, -1, -1)
    estimate = contraction_penalty(problem, latents, generator, scales=(1e-4, 1e-4))
    # The estimate vᵀJᵀJv has a variance of 2‖JᵀJ‖²_F ≤ 2‖J‖⁴_F: of 4000 the mean deviates by at most 2.3%
    # in standard deviations, and 8% is more than three of them; ε = 1e-4 adds some 1e-4.
    assert estimate.item() == pytest.approx(expected, rel=0.08)


def test_padding_counts_in_neither_penalty() -> None:
    model = quick_mamba2(residual=True)
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    padded = torch.cat([tokens, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    lengths = torch.tensor([5])
    alone = torch.randn(1, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    latents = torch.cat([alone, torch.zeros(1, 3, 8, dtype=torch.float64)], dim=1)
    directions = torch.randn(1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(8)[None] < lengths[:, None]
    found = contraction_penalty(
        model.problem(padded, None, lengths), latents, torch.Generator().manual_seed(3), mask
    )
    problem = model.problem(tokens)
    change = problem.function(alone + 0.1 * directions[:, :5]) - problem.function(alone)
    expected = (change / 0.1).square().sum(-1).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)  # float64 rounding


def test_scales_differ_between_sequences_within_their_bounds() -> None:
    """For Φ(z) = |z| around 0 in one dimension, Φ(εv) is ε|v|: what is evaluated tells ε where v is known."""
    seen: list[torch.Tensor] = []

    def function(z: torch.Tensor) -> torch.Tensor:
        seen.append(z)
        return z.abs()

    latent = torch.zeros(2000, 2, 1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(4)
    contraction_penalty(FixedPointProblem(function), latent, generator, scales=(0.1, 1.0))
    drawn = torch.Generator().manual_seed(4)
    expected = 0.1 * 10 ** torch.rand((2000, 1, 1), dtype=torch.float64, generator=drawn)
    scale = seen[0] / torch.randn(2000, 2, 1, dtype=torch.float64, generator=drawn)
    torch.testing.assert_close(scale, expected.expand(-1, 2, -1), rtol=1e-12, atol=0)  # float64 rounding
    assert 0.1 <= scale.min() < 0.11
    assert 0.9 < scale.max() <= 1
    # The median of a log-uniform scale is √0.1; half of 2000 lie below it up to 3 standard deviations, 67.
    assert abs(int((scale[:, 0] < 0.1**0.5).sum()) - 1000) <= 67


def test_a_power_counts_the_tokens_that_contract_least() -> None:
    rates = torch.tensor([0.1, 0.9], dtype=torch.float64).view(1, 2, 1)
    latent = torch.zeros(1, 2, 1, dtype=torch.float64)
    direction = torch.randn(1, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for power in (1.0, 2.0):
        noise = torch.Generator().manual_seed(0)
        problem = FixedPointProblem(lambda z: rates * z)
        found = contraction_penalty(problem, latent, noise, power=power)
        expected = (rates * direction).square().pow(power).mean()
        assert found.item() == pytest.approx(expected.item(), rel=1e-12)  # float64 rounding
