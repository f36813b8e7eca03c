"""Experiments measure on another device, such as a GPU, what they measure on the CPU."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from analysis.agreement import analyse as compare_modes
from analysis.framework.output import json_ready
from analysis.length_generalization import LengthSettings
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model, load_run
from implicit.training.train import train
from paper_figures.figures.bounded_and_free import BoundedSettings, measure_bounded
from paper_figures.figures.error_control import FailureSettings, failure
from paper_figures.figures.gradients import ReachSettings, gradient_reach
from paper_figures.measurements import courses
from paper_figures.measurements.answers import AnswerSettings, answers
from paper_figures.measurements.hard_tokens import HardTrainingSettings, accuracy_by_limit
from paper_figures.measurements.iterations import (
    BudgetSettings,
    TokenSettings,
    budgets,
    hardest_tokens,
    token_iterations,
)
from paper_figures.measurements.lengths import accuracy
from tests.paper_figures.measurements.other_device import OTHER, other_device

LENGTHS = LengthSettings(lengths=(4, 8), sequences=4, batch_size=4)
TOKENS = TokenSettings(tolerances=(0.01,), lengths=(4, 8), sequences=4, swept_sequences=2, thresholds=(4, 8))
MEASURED: dict[str, Callable[[Run], Any]] = {
    "accuracy by length": lambda run: accuracy(run, LENGTHS),
    "answers in texts": lambda run: [
        {"right": found.right.tolist(), "share_converged": found.share_converged}
        for found in answers(run, run.task, 5, AnswerSettings(sequences=3, batch_size=2))
    ],
    "accuracy after few sweeps": lambda run: measure_bounded(run, BoundedSettings(lengths=LENGTHS)),
    "accuracy by budget": lambda run: budgets(run, BudgetSettings(budgets=(1, 16), length=6, sequences=4)),
    "accuracy by limit": lambda run: accuracy_by_limit(
        run,
        HardTrainingSettings(
            hard_fractions=(1.0,), limits=(4,), length=4, shorter=(2,), sequences=3, swept_sequences=2
        ),
    ),
    "iterations of tokens": lambda run: token_iterations(run, TOKENS),
    "hardest tokens": lambda run: hardest_tokens(run, TOKENS),
    "agreement": lambda run: compare_modes(run, sequences=2, length=4, examples=0).numbers(),
    "length of failure": lambda run: failure(
        replace(run, config=run.config.updated(length=2, start_length=2)),  # so that short words are read
        FailureSettings(lengths=(4,), sequences=2, words=16, pairs=1, follow=1),
    ),
    "reach of gradients": lambda run: gradient_reach(run, ReachSettings(steps=(1, 4), sequences=2, length=3)),
}


def alike(found: Any) -> Any:
    """Numbers in a form that compares with a tolerance, the rest as it is.

    Kernels of the CPU add up in another order than plain PyTorch, in float32 for q, of order 1/10: their
    difference is 1e-6 and less. A token on the other side of a device, or of a batch, would differ in 1/10.
    """
    if isinstance(found, dict):
        return {name: alike(value) for name, value in found.items()}
    if isinstance(found, list):
        return [alike(value) for value in found]
    return pytest.approx(found, rel=1e-4, abs=1e-6) if isinstance(found, float) else found


@pytest.mark.parametrize("measure", MEASURED.values(), ids=MEASURED)
def test_a_model_elsewhere_is_measured_as_on_the_cpu(measure: Callable[[Run], Any]) -> None:
    expected = json_ready(measure(load_run("parity-small")))
    with other_device():
        run = load_run("parity-small")
        run.model.to(OTHER)
        found = json_ready(measure(run))
    assert found == alike(expected)


COURSES: dict[str, Callable[[Run], Any]] = {
    "agreement": lambda run: courses.agreement_course(
        run, courses.AgreementCourse(sequences=2, length=2, max_iterations=20, answered=2)
    ),
    "jacobians": lambda run: courses.jacobian_course(
        run, courses.JacobianCourse(states=1, sequences=1, length=2)
    ),
}


def test_a_training_is_repeated_and_measured_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are the same at first; that the last ones are equal is asked where it is repeated."""
    sizes = {"d_model": 4, "head_size": 4, "d_state": 2, "residual": False}
    short = {"steps": 2, "warmup_steps": 1, "bounded_steps": 1, "batch_size": 2, "length": 3}
    free = {"free_mode": "simultaneous", "free_gradient": "phantom", "random_starts": 0.0}
    ends = {"growth_accuracy": None, "contraction_weight": 0.0, "carried_share": 0.0}
    settings = {**sizes, **short, **free, **ends, "evaluation_sequences": 2, "seed": 1}
    config = recipe("parity", "implicit-mamba2", **settings)

    def measured(run: Run) -> dict[str, Any]:
        monkeypatch.setattr(courses, "runs_on_the_way", lambda run, steps: {0: run})
        return {name: json_ready(measure(run)["course"]) for name, measure in COURSES.items()}

    with other_device():
        run = train(config, tmp_path / "there", progress=False, device=str(OTHER))
        run.model.to(OTHER)
        repeated = courses.runs_on_the_way(run, (0,))
        elsewhere = measured(repeated[0])
    assert list(repeated) == [0, 2]
    here = replace(run, model=initial_model(config, run.task).eval())
    assert elsewhere == alike(measured(here))


def test_tensors_of_two_devices_may_not_meet() -> None:
    with other_device():
        here = torch.arange(3.0)
        there = here.to(OTHER)
        assert (there.device.type, there.cpu().tolist()) == ("meta", [0, 1, 2])
        assert (2 * there + torch.tensor(1.0)).tolist() == [1, 3, 5]
        assert torch.zeros(2, device=OTHER).tolist() == [0, 0]
        assert there[torch.tensor([2])].tolist() == [2]
        for meet in (lambda: here + there, lambda: here[there.long()], lambda: torch.cat([there, here])):
            with pytest.raises(RuntimeError, match="on the same device"):
                meet()
        with pytest.raises((RuntimeError, TypeError), match="numpy"):
            there.numpy()
