"""The loss against its definition, and the solve against the phase."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from automata.tasks.registry import make_task
from implicit.config.curriculum import Curriculum
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import build_model
from implicit.runs.loading import load_run
from implicit.training.objective import objective, starts_from_everywhere
from implicit.training.streams import Stream, draw_batch, noise_generator
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
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8}, task)
    assert isinstance(model, ImplicitModel)
    batch = draw_batch(task, 4, 6, 0, Stream.TRAIN, 1)
    gradients = []
    for step, rule in ((1, Unrolled(3)), (2, Phantom(4, 0.8))):
        phase = CURRICULUM.phase(step, length=6)
        result = objective(model, batch, phase)
        assert result.solution is not None
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
    assert isinstance(run.model, ImplicitModel)
    batch = draw_batch(run.task, 2, 48, 0, Stream.TRAIN, 1)
    curriculum = Curriculum(bounded_steps=0, free_mode="windowed")
    result = objective(run.model, batch, curriculum.phase(1, length=48))
    assert result.solution is not None
    assert result.solution.converged.all()
    assert result.solution.evaluations.double().mean() < 24  # the sweeps that training is given
    result.loss.backward()
    assert all(parameter.grad is not None for parameter in run.model.parameters())


def test_right_are_the_sequences_that_answer_all_of_their_last_third_rightly() -> None:
    run = load_run("parity")
    batch = draw_batch(run.task, 3, 12, 0, Stream.TRAIN, 1)
    targets = batch.targets.clone()
    targets[1, 8] = 1 - targets[1, 8]  # the first of the last third
    targets[2, 7] = 1 - targets[2, 7]  # the last before it
    phase = replace(CURRICULUM.phase(2, length=12), stopping=Stopping(rtol=1e-2))
    found = objective(run.model, batch._replace(targets=targets), phase)
    assert found.right.tolist() == [True, False, True]
    assert found.late_accuracy == 11 / 12


def test_loss_until_error_is_the_mean_over_what_no_wrong_answer_comes_before() -> None:
    """Of a model that is right everywhere, with one target made wrong, against the mean by hand."""
    run = load_run("parity")
    batch = draw_batch(run.task, 3, 12, 0, Stream.TRAIN, 1)
    targets = batch.targets.clone()
    targets[1, 4] = 1 - targets[1, 4]
    targets[2, 11] = 1 - targets[2, 11]
    batch = batch._replace(targets=targets)
    stopping = Stopping(rtol=1e-2)
    phase = replace(CURRICULUM.phase(2, length=12), loss_until_error=True, stopping=stopping)
    found = objective(run.model, batch, phase)
    logits = solved(run.model, batch.tokens, stopping=stopping).logits.detach()
    every = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    every = every.view(3, 12)
    expected = torch.cat([every[0], every[1, :5], every[2]]).mean()
    assert found.loss.item() == pytest.approx(expected.item(), rel=1e-5)  # float32, a sum of 29 terms
    whole = objective(run.model, batch, replace(phase, loss_until_error=False))
    assert (found.accuracy, found.late_accuracy) == (whole.accuracy, whole.late_accuracy)


def test_what_is_not_asked_is_no_error() -> None:
    run = load_run("parity")
    batch = draw_batch(run.task, 2, 6, 0, Stream.TRAIN, 1)
    targets, weights = batch.targets.clone(), batch.weights.clone()
    targets[0, 1], weights[0, 1] = 1 - targets[0, 1], 0.0
    batch = batch._replace(targets=targets, weights=weights)
    phase = CURRICULUM.phase(2, length=6)
    found = objective(run.model, batch, replace(phase, loss_until_error=True))
    assert found.loss.item() == objective(run.model, batch, phase).loss.item()


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
    found = objective(run.model, batch, phase, noise_generator(0, 1))
    from_zero = torch.zeros(3, 5, 32)
    starts = starts_from_everywhere(from_zero, 1.0, noise_generator(0, 1))
    assert found.solution is not None
    assert torch.equal(found.solution.latents, starts)
    assert Curriculum(bounded_steps=1, random_starts=1.0).phase(1, length=5).random_starts == 0


def test_explicit_models_have_no_starts() -> None:
    task = make_task("parity")
    model = build_model("lstm", {}, task)
    batch = draw_batch(task, 2, 5, 0, Stream.TRAIN, 1)
    phase = CURRICULUM.phase(2, length=5)
    plain, asked = (
        objective(model, batch, replace(phase, random_starts=share)).loss.item() for share in (0.0, 1.0)
    )
    assert plain == asked
