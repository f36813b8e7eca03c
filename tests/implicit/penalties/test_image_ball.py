"""The image ball penalty against latents from all over, and where it enters."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.curriculum import Curriculum
from implicit.config.recipes import recipe
from implicit.fixed_point import Stopping
from implicit.gradients import Phantom
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config, build_model
from implicit.modes import SequenceSolution
from implicit.penalties import Solved
from implicit.penalties.contraction import Contraction
from implicit.penalties.image_ball import GOAL, ImageBall
from implicit.training.objective import objective
from implicit.training.streams import Stream, draw_batch, noise_generator
from implicit.training.train import train
from theory.transition import State

SIZES: dict[str, dict[str, Any]] = {
    "one head": {"d_model": 4, "head_size": 4, "d_state": 1, "d_conv": 2, "expand": 1},
    "heads and groups": {"d_model": 6, "head_size": 3, "d_state": 3, "d_conv": 4, "groups": 2},
    "no window, no stream": {"d_model": 4, "head_size": 8, "d_state": 2, "d_conv": 1, "residual": False},
}


def model_of(sizes: dict[str, Any], seed: int, reading: float = 0.1) -> ImplicitMamba2:
    torch.manual_seed(seed)
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)).double()
    with torch.no_grad():
        model.get_parameter("mixers.0.in_proj.weight").mul_(reading)
        model.get_parameter("latent_norm.weight").mul_(0.5)
    return model


def image_ball_penalty(
    model: ImplicitMamba2, tokens: Tensor, state: State, latents: Tensor, mask: Tensor | None = None
) -> Tensor:
    counts = torch.zeros_like(tokens)
    solution = SequenceSolution(latents, counts, latents[..., 0], counts, counts, "simultaneous", mask)
    return ImageBall().measure(Solved(model, tokens, state, solution, Phantom(), Stopping()))


@pytest.mark.parametrize(("seed", "sizes"), list(enumerate(SIZES.values())), ids=SIZES)
@torch.no_grad()
def test_it_bounds_what_any_latent_adds_to_the_stream(seed: int, sizes: dict[str, Any]) -> None:
    model = model_of(sizes, seed)
    generator = torch.Generator().manual_seed(seed)
    state = {
        name: torch.randn(part.shape, generator=generator, dtype=torch.float64)
        for name, part in model.init_state(1).items()
    }
    tokens, latents = torch.tensor([[1]]), torch.zeros(1, 1, model.latent_size).double()
    bound = GOAL * math.exp(float(image_ball_penalty(model, tokens, state, latents)))
    assert bound > GOAL
    (cell,), (norm,), (injection,) = model.cells, model.norms, model.injections
    entering = injection(model.embedding_norm(model.embedding(tokens[:, 0])))
    own = {name.partition(".")[0]: part for name, part in state.items()}

    def added(z: torch.Tensor) -> torch.Tensor:
        return cell.step(norm(z), own, entering.expand(len(z), -1))[0]

    at_zero = added(torch.zeros(1, model.latent_size).double())
    y = torch.randn(400, model.latent_size, generator=generator, dtype=torch.float64)
    lengths = math.sqrt(model.latent_size) * torch.rand(400, 1, generator=generator) ** 0.3
    z = y * lengths / y.norm(dim=1)[:, None] * model.latent_norm.weight
    own = {name: part.expand(400, *part.shape[1:]) for name, part in own.items()}
    moved = added(z) - at_zero + (z if model.residual else 0)
    # the bound leaves out the ε of the norms, 1e-5 beside mean squares of order 0.01 and more
    assert float(moved.norm(dim=1).max() / at_zero.norm()) <= bound * 1.01


def test_it_is_the_mean_over_the_tokens_of_a_mask() -> None:
    model = model_of(SIZES["one head"], 0)
    tokens = torch.tensor([[0, 1, 1]])
    with torch.no_grad():
        latents = model.run(tokens).solution.latents  # type: ignore[union-attr]
        state = model.init_state(1)
        single = [
            float(image_ball_penalty(model, tokens, state, latents, mask=torch.arange(3)[None] == position))
            for position in range(3)
        ]
        whole = float(image_ball_penalty(model, tokens, state, latents))
    assert whole == pytest.approx(sum(single) / 3, rel=1e-12)
    assert len(set(single)) == 3


def test_small_balls_cost_nothing_and_have_no_gradient() -> None:
    model = model_of(SIZES["one head"], 0, reading=1e-4)
    with torch.no_grad():
        model.get_parameter("mixers.0.out_proj.weight").mul_(50.0)
        model.get_parameter("mixers.0.conv1d.weight")[..., -1].mul_(1e-4)  # lets next to nothing through
    tokens = torch.tensor([[0, 1, 1]])
    latents = torch.zeros(1, 3, 4).double()
    state = {name: part + 1.0 for name, part in model.init_state(1).items()}
    penalty = image_ball_penalty(model, tokens, state, latents)
    penalty.backward()
    assert penalty.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_block_that_reads_nothing_costs_nothing_and_has_finite_gradients() -> None:
    model = model_of(SIZES["no window, no stream"], 0, reading=0.0)
    tokens, latents = torch.tensor([[0, 1, 1]]), torch.zeros(1, 3, 4).double()
    penalty = image_ball_penalty(model, tokens, model.init_state(1), latents)
    penalty.backward()
    assert penalty.item() == 0
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_it_and_the_contraction_enter_in_the_free_phase_only() -> None:
    torch.manual_seed(0)
    task = make_task("parity")
    model: Any = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8, "d_state": 4}, task)
    batch = draw_batch(task, 2, 4, 0, Stream.TRAIN, 2)
    curriculum = Curriculum(bounded_steps=1, image_ball_weight=0.25, contraction_weight=0.5)
    bounded, result = (  # type: Any, Any
        objective(model, batch, curriculum.phase(step, length=4), noise_generator(0, 2)) for step in (1, 2)
    )
    assert bounded.penalties == {}
    latents = result.solution.latents.detach()
    state = model.init_state(2)
    given = model.implicit, batch.tokens, state, result.solution, Phantom(), Stopping()
    expected = {
        "image_ball": 0.25 * image_ball_penalty(model.implicit, batch.tokens, state, latents),
        "contraction": 0.5 * Contraction().measure(Solved(*given, noise=noise_generator(0, 2))),
    }
    assert result.penalties == expected
    assert result.total.item() == pytest.approx((result.loss + sum(expected.values())).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("model", "sizes", "said"),
    [
        ("implicit-deltanet", {}, "is implicit-deltanet with 1 layers"),
        ("implicit-mamba2", {"layers": 2}, "is implicit-mamba2 with 2 layers"),
        ("implicit-mamba2", {"mlp_size": 8}, "is implicit-mamba2 with an MLP"),
        ("mamba2", {}, "is mamba2 with"),
    ],
)
def test_other_models_are_refused_before_anything_is_written(
    tmp_path: Path, model: str, sizes: dict[str, int], said: str
) -> None:
    config = recipe("parity", model, image_ball_weight=0.1, **sizes)
    with pytest.raises(InputError, match=f"image_ball_weight is set, but the model {said}"):
        train(config, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_few_steps_shrink_the_ball(tmp_path: Path) -> None:
    short = {"steps": 30, "warmup_steps": 1, "batch_size": 4, "length": 8, "growth_accuracy": None}
    own = SIZES["one head"] | {"image_ball_weight": 1.0, "evaluate_every": 10}
    config = recipe("parity", "implicit-mamba2", **short | own)
    run = train(config, tmp_path / "run", progress=False)
    penalties = [entry["image_ball_penalty"] for entry in run.metrics]
    assert penalties[-1] < penalties[0]
