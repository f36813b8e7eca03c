"""The attraction penalty of maps with a known one, and its place in training."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from automata.tasks.registry import make_task
from implicit.config.curriculum import Curriculum
from implicit.fixed_point import FixedPointProblem
from implicit.models.interface import FixedPointModel
from implicit.models.registry import build_model
from implicit.training.objective import objective
from implicit.training.penalties.attraction import SAMPLES, attraction_penalty
from implicit.training.streams import Stream, draw_batch, noise_generator


class Scaling:
    """A model without state whose self-map is z ↦ a z, with a the number of the token divided by 4."""

    def states_at(self, tokens: Tensor, latents: Tensor, state: Any, lengths: Any) -> dict[str, Tensor]:
        return {}

    def problem(self, tokens: Tensor, state: Any) -> FixedPointProblem:
        assert tokens.shape[1] == 1  # every token is asked for alone
        return FixedPointProblem(lambda z: z * tokens[..., None] / 4)


def scaling() -> FixedPointModel:
    return cast(FixedPointModel, Scaling())


def test_of_a_scaling_it_is_the_square_of_the_factor() -> None:
    """At latents nearer than √0.1 it counts as less, at most at a fourteenth of the tokens: the others
    have another of 8 latents that is farther away, of which each is nearer with probability √(0.1 / 4)."""
    tokens = torch.tensor([[1, 2, 3] * 100])
    latents = torch.zeros(1, 300, 4, dtype=torch.float64)
    found = attraction_penalty(scaling(), tokens, {}, latents, torch.Generator().manual_seed(0))
    assert found.item() == pytest.approx((1 + 4 + 9) / 3 / 16, rel=1e-12)


def test_only_tokens_of_the_mask_count() -> None:
    tokens = torch.tensor([[1, 2, 8]])
    latents = torch.zeros(1, 3, 4, dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    found = attraction_penalty(scaling(), tokens, {}, latents, torch.Generator().manual_seed(0), mask=mask)
    assert found.item() == pytest.approx((1 + 4) / 2 / 16, rel=1e-12)


def test_of_a_model_it_is_the_worst_ratio_of_single_tokens() -> None:
    """Against the transition, token by token, at the latents that the generator draws."""
    torch.manual_seed(0)
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8, "d_state": 4}, make_task("parity"))
    implicit = model.double().implicit
    assert implicit is not None
    tokens, noise = torch.tensor([[0, 1, 1]]), torch.Generator().manual_seed(3)
    with torch.no_grad():
        latents = implicit.fixed_points(tokens).latents
        found = attraction_penalty(implicit, tokens, implicit.init_state(1), latents, noise).item()
        noise = torch.Generator().manual_seed(3)
        drawn = torch.randn(3 * SAMPLES, 1, 8, generator=noise)[:, 0]
        length = torch.rand(3 * SAMPLES, 1, 1, generator=noise)[:, 0]
        drawn = (drawn / drawn.norm(dim=1, keepdim=True) * (length * 8**0.5)).reshape(3, SAMPLES, 8).double()
        states, worst = implicit.states_at(tokens, latents), []
        for t in range(3):
            own = {name: part[0, t] for name, part in states.items()}
            transition, fixed = implicit.transition(int(tokens[0, t])), latents[0, t]
            image = transition.self_map(fixed, own)
            worst.append(
                max(
                    float((transition.self_map(z, own) - image).square().sum() / (z - fixed).square().sum())
                    for z in drawn[t]
                )
            )
    assert found == pytest.approx(sum(worst) / 3, rel=1e-9)  # float64 rounding of another order


@pytest.mark.parametrize("step", [1, 2])
def test_it_enters_in_the_free_phase_only(step: int) -> None:
    torch.manual_seed(0)
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8, "d_state": 4}, make_task("parity"))
    batch = draw_batch(make_task("parity"), 2, 4, 0, Stream.TRAIN, step)
    phase = Curriculum(bounded_steps=1, attraction_weight=0.25).phase(step, length=4)
    result = objective(model, batch, phase, noise_generator(0, step))
    if step == 1:
        assert result.attraction is None
        return
    assert result.solution is not None
    assert result.attraction is not None
    assert model.implicit is not None
    expected = attraction_penalty(
        model.implicit,
        batch.tokens,
        model.init_state(2),
        result.solution.latents.detach(),
        noise_generator(0, step),
    )
    assert result.attraction.item() == 0.25 * expected.item()
    assert result.total.item() == pytest.approx(result.loss.item() + result.attraction.item(), rel=1e-6)
