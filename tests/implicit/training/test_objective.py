"""The loss against its definition, and the solve against the phase."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from automata.tasks.registry import make_task
from implicit.config.curriculum import Curriculum
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.registry import build_model
from implicit.runs.loading import load_run
from implicit.training.objective import objective, starts_from_everywhere
from implicit.training.streams import Stream, TokenBatch, draw_batch, noise_generator
from tests.solving import solved

CURRICULUM = Curriculum(
    bounded_steps=1, bounded_iterations=3, free_max_iterations=7, free_mode="simultaneous", free_rtol=1e-2
)


@pytest.mark.parametrize("name", ["implicit-mamba2", "implicit-transformer", "pd-ssm", "lstm"])
def test_loss_is_the_cross_entropy_of_every_label(name: str) -> None:
    task = make_task("S3")
    torch.manual_seed(0)
    model = build_model(name, {"d_model": 16}, task).double()
    batch = draw_batch(task, 4, 6, 0, Stream.TRAIN, 1)
    result = objective(model, batch, CURRICULUM.phase(2, length=6))
    if isinstance(model, ImplicitModel):
        stopping = Stopping(1e-2, 0.0, 11)
        logits = solved(model, batch.tokens, gradient=Phantom(4, 0.8), stopping=stopping).logits
    else:
        logits = model(batch.tokens)
    numbers = logits.detach().numpy()
    chosen = np.take_along_axis(numbers, batch.targets.numpy()[..., None], -1)[..., 0]
    expected = (np.log(np.exp(numbers).sum(-1)) - chosen).mean()
    assert result.loss.item() == pytest.approx(expected, rel=1e-12)  # float64, sums of some hundred terms
    assert result.accuracy == float((numbers.argmax(-1) == batch.targets.numpy()).mean())


def test_phases_solve_and_differentiate_as_they_say() -> None:
    task = make_task("parity")
    torch.manual_seed(0)
    model: Any = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8}, task)
    batch = draw_batch(task, 4, 6, 0, Stream.TRAIN, 1)
    gradients = []
    for step, rule in ((1, Unrolled(3)), (2, Phantom(4, 0.8))):
        phase = CURRICULUM.phase(step, length=6)
        result: Any = objective(model, batch, phase)
        assert int(result.solution.iterations.max()) <= (3 if step == 1 else 11)
        (gradient,) = torch.autograd.grad(result.loss, model.embedding.weight)
        logits = solved(model, batch.tokens, gradient=rule, stopping=phase.stopping).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
        (expected,) = torch.autograd.grad(loss, model.embedding.weight)
        assert torch.equal(gradient, expected)
        gradients.append(gradient)
    assert not torch.allclose(gradients[0], gradients[1])


def test_windows_of_the_phase_reach_the_solve_and_its_gradient() -> None:
    run = load_run("parity")
    batch = draw_batch(run.task, 2, 48, 0, Stream.TRAIN, 1)
    curriculum = Curriculum(bounded_steps=0, free_mode="windowed")
    result: Any = objective(run.model, batch, curriculum.phase(1, length=48))
    assert result.solution.converged.all()
    assert result.solution.evaluations.double().mean() < 24  # the sweeps that training is given
    result.loss.backward()
    assert all(parameter.grad is not None for parameter in run.model.parameters())


def parity_with_wrong(
    *places: tuple[int, int], length: int = 12, weight: float = 1.0
) -> tuple[SequenceModel, TokenBatch]:
    """A model that is right everywhere, and a batch with some targets made wrong."""
    run = load_run("parity")
    batch = draw_batch(run.task, 3, length, 0, Stream.TRAIN, 1)
    targets, weights = batch.targets.clone(), batch.weights.clone()
    for place in places:
        targets[place], weights[place] = 1 - targets[place], weight
    return run.model, batch._replace(targets=targets, weights=weights)


def test_right_are_the_sequences_that_answer_all_of_their_last_third_rightly() -> None:
    model, batch = parity_with_wrong((1, 8), (2, 7))  # the first of the last third, the last before it
    phase = replace(CURRICULUM.phase(2, length=12), stopping=Stopping(rtol=1e-2))
    found = objective(model, batch, phase)
    assert found.right.tolist() == [True, False, True]
    assert found.late_accuracy == 11 / 12


def test_loss_until_error_is_the_mean_over_what_no_wrong_answer_comes_before() -> None:
    model, batch = parity_with_wrong((1, 4), (2, 11))
    stopping = Stopping(rtol=1e-2)
    phase = replace(CURRICULUM.phase(2, length=12), loss_until_error=True, stopping=stopping)
    found = objective(model, batch, phase)
    logits = solved(model, batch.tokens, stopping=stopping).logits.detach()
    every = torch.nn.functional.cross_entropy(logits.mT, batch.targets, reduction="none")
    expected = torch.cat([every[0], every[1, :5], every[2]]).mean()
    assert found.loss.item() == pytest.approx(expected.item(), rel=1e-5)  # float32, a sum of 29 terms
    whole = objective(model, batch, replace(phase, loss_until_error=False))
    assert (found.accuracy, found.late_accuracy) == (whole.accuracy, whole.late_accuracy)


def test_what_is_not_asked_is_no_error() -> None:
    model, batch = parity_with_wrong((0, 1), length=6, weight=0.0)
    phase = CURRICULUM.phase(2, length=6)
    found = objective(model, batch, replace(phase, loss_until_error=True))
    assert found.loss.item() == objective(model, batch, phase).loss.item()


def test_random_starts_are_where_the_fixed_point_is_sought_from() -> None:
    """One evaluation per token, which measures the residual, leaves the latents where they start."""
    run = load_run("parity")
    batch = draw_batch(run.task, 3, 5, 0, Stream.TRAIN, 1)
    phase = replace(
        CURRICULUM.phase(2, length=5),
        gradient=FactoredImplicit(),
        random_starts=1.0,
        stopping=Stopping(rtol=1e-6, max_iterations=1),
    )
    found: Any = objective(run.model, batch, phase, noise_generator(0, 1))
    from_zero = torch.zeros(3, 5, 32)
    starts = starts_from_everywhere(from_zero, 1.0, noise_generator(0, 1))
    assert torch.equal(found.solution.latents, starts)
    assert Curriculum(bounded_steps=1, random_starts=1.0).phase(1, length=5).random_starts == 0


def test_explicit_models_have_no_starts() -> None:
    task = make_task("parity")
    model = build_model("lstm", {}, task)
    batch = draw_batch(task, 2, 5, 0, Stream.TRAIN, 1)
    phase = CURRICULUM.phase(2, length=5)
    plain, asked = (objective(model, batch, replace(phase, random_starts=s)).loss.item() for s in (0.0, 1.0))
    assert plain == asked
