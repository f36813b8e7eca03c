"""The cost of training, by hand and by the evaluations that a training makes; accuracy after few sweeps."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.length_generalization import LengthSettings
from implicit.config.recipes import recipe
from implicit.gradients import Unrolled
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from implicit.training.streams import Stream, draw_batch
from implicit.training.train import train
from paper_figures.experiments.grid import Point
from paper_figures.figures.bounded_and_free import (
    GRADIENT_WEIGHT,
    BoundedSettings,
    measure_bounded,
    training_cost,
)
from paper_figures.registry import figure_named
from tests.refusals import refusals

BY_STEP: dict[str, Any] = {"warmup_steps": 1, "growth_accuracy": None, "bounded_length": 0}
BY_STEP |= {"bounded_iterations": 3, "random_starts": 0.0, "loss_until_error": False, "carried_share": 0.0}
SMALL = {"d_model": 4, "head_size": 4, "d_state": 2, "evaluation_sequences": 1}


def run_of(metrics: list[dict[str, Any]], **settings: Any) -> Run:
    """A run with these metrics; its weights play no part."""
    config = recipe("S3", "implicit-mamba2", **settings)
    return replace(load_run("s3-small"), config=config, metrics=metrics)


def free(step: int, iterations: float, **more: Any) -> dict[str, Any]:
    return {"step": step, "phase": "free", "mean_iterations": iterations, **more}


RECORDED = [free(2, 7.0, validation={"32": {"mean_iterations": 5.0}})]


def test_a_switch_is_counted_by_hand() -> None:
    """Steps 1, 2 of 4 tokens are bounded; 3, 4 of 8 and 5, 6 of 12 are free, with 6, 8, 10, 10 iterations."""
    bounded = {"step": 1, "phase": "bounded", "mean_iterations": 3.0}
    metrics = [bounded, free(3, 6.0), free(5, 10.0), free(6, 10.0)]
    growing = {"length": 12, "start_length": 4, "length_growth_every": 2}
    phases = {"bounded_steps": 2, "free_gradient": "phantom", "phantom_steps": 5, "contraction_weight": 0.0}
    cost = training_cost(run_of(metrics, **BY_STEP, **growing, **phases, steps=6, batch_size=2))
    assert (cost["updates"], cost["bounded_updates"]) == (6, 2)
    assert (cost["tokens"], cost["bounded_tokens"]) == (2 * (4 + 4 + 8 + 8 + 12 + 12), 2 * (4 + 4))
    assert cost["with_gradient"] == 2 * (3 * (4 + 4) + 5 * (8 + 8 + 12 + 12))
    sought = 2 * (8 * 6 + 8 * 8 + 12 * 10 + 12 * 10)
    assert cost["without_gradient"] == sought + 2 * (4 + 4)  # one measures what was unrolled
    assert cost["mean_iterations"] == sought / (2 * (8 + 8 + 12 + 12))
    assert cost["total"] == cost["without_gradient"] + GRADIENT_WEIGHT * cost["with_gradient"]


def test_bounded_only_measures_once_and_has_no_mean() -> None:
    metrics = [{"step": 4, "phase": "bounded", "mean_iterations": 3.0}]
    cost = training_cost(run_of(metrics, **BY_STEP, steps=4, batch_size=2, length=8, bounded_steps=4))
    assert (cost["without_gradient"], cost["with_gradient"]) == (2 * 8 * 4, 3 * 2 * 8 * 4)
    assert cost["mean_iterations"] is None


def test_random_starts_are_sought_twice() -> None:
    """From zero, as in validation, and from everywhere; with gradient: one evaluation, two of the penalty."""
    cost = training_cost(run_of(RECORDED))
    assert (cost["tokens"], cost["without_gradient"], cost["with_gradient"]) == (
        2 * 64 * 32,
        12 * 4096,
        3 * 4096,
    )


test_what_the_metrics_do_not_tell_is_refused = refusals(
    (lambda: training_cost(run_of(RECORDED, start_length=4)), "growth_accuracy"),
    (lambda: training_cost(run_of(RECORDED, forgetting_weight=0.1)), "forgetting_weight"),
    (lambda: training_cost(run_of(RECORDED, evaluation_rtol=0.1)), "evaluation_rtol"),
)


@pytest.mark.parametrize(
    ("gradient", "weight"), [("phantom", 0.0), ("phantom", 0.01), ("implicit", 0.0), ("implicit", 0.01)]
)
def test_a_training_makes_the_evaluations_that_are_counted(
    gradient: str, weight: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sequence of one token, recorded at every step: each sweep in training is one evaluation at a token.

    Nobody reads the state after the sequence, which no evaluation makes.
    """
    seen = {True: 0, False: 0}
    sweep = ImplicitModel._sweep

    def counted(model: ImplicitModel, latent: torch.Tensor, *rest: Any) -> Any:
        if model.training:
            seen[torch.is_grad_enabled()] += latent.shape[0] * latent.shape[1]
        return sweep(model, latent, *rest)

    monkeypatch.setattr(ImplicitModel, "_sweep", counted)
    sizes = {"steps": 6, "batch_size": 1, "length": 1, "bounded_steps": 2, "evaluate_every": 1}
    free = {"free_mode": "simultaneous", "free_gradient": gradient, "contraction_weight": weight}
    config = recipe("S3", "implicit-mamba2", **BY_STEP, **SMALL, **sizes, **free)
    cost = training_cost(train(config, tmp_path / "run", progress=False))
    assert cost["with_gradient"] == seen[True]
    assert cost["without_gradient"] == seen[False] > 4


def test_bounded_accuracy_is_that_of_so_many_sweeps_on_the_same_sequences(
    untrained: Callable[[Point], Run],
) -> None:
    run = untrained(figure_named("bounded_and_free").experiment.points[0])
    lengths = LengthSettings(lengths=(12, 20), sequences=6, batch_size=4)
    found = measure_bounded(run, BoundedSettings(iterations=2, lengths=lengths))["bounded_accuracy"]
    right = []
    for index, size in enumerate((4, 2)):  # as `analysis.length_generalization` draws them
        batch = draw_batch(run.task, size, 20, 0, Stream.TEST, 20, index)
        output = run.model.run(batch.tokens, solve=Solve("simultaneous", gradient=Unrolled(2)))
        assert output.solution is not None
        assert (output.solution.iterations == 2).all()
        right.append((output.logits.argmax(dim=-1) == batch.targets).numpy())
    correct = np.concatenate(right)
    assert found == {"12": correct[:, 2:12].mean(), "20": correct[:, 10:20].mean()}
