"""A training run followed: it is repeated, and measured after some of its updates."""

import copy
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from analysis.agreement import analyse as compare_modes
from analysis.convergence import analyse as follow_both
from analysis.jacobian import analyse
from analysis.length_generalization import LengthSettings
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run, initial_model
from implicit.train import train
from implicit.training.progress import TrainingStep
from paper_figures.measurements.iterations import MODES, training_course
from paper_figures.measurements.lengths import accuracy
from paper_figures.rows import MeasuredRun


def runs_on_the_way(run: Run, steps: Collection[int]) -> dict[int, Run]:
    """Train a run again; return it with its model after some steps, in order, and after the last one.

    The run is trained again on the device that its model is on; step 0 has the initial weights, and steps
    later than the last are ignored. InputError if the training does not end in the weights of the run.
    """
    kept: dict[int, SequenceModel] = {}
    device = run.model.device
    if 0 in steps:
        kept[0] = initial_model(run.config, run.task).to(device)

    def keep(taken: TrainingStep) -> None:
        if taken.step in steps:
            kept[taken.step] = copy.deepcopy(taken.model)

    with tempfile.TemporaryDirectory() as folder:
        again = train(run.config, Path(folder) / "run", progress=False, device=str(device), callback=keep)
    ended, weights = run.model.state_dict(), again.model.to(device).state_dict()
    if any(not torch.equal(ended[name], weights[name]) for name in ended):
        raise InputError(
            f"training of {run.name} ended in other weights than those stored; train both with the same "
            "number of threads on the same machine"
        )
    kept[again.metrics[-1]["step"]] = again.model
    return {step: Run(run.path, run.config, model.eval(), run.task, []) for step, model in kept.items()}


def along(
    value: Callable[[Mapping[str, Any]], float | None], of: str = "course"
) -> Callable[[MeasuredRun], dict[int, float | None]]:
    """Return the values of a course by step, as figures draw them."""
    return lambda run: {entry["step"]: value(entry) for entry in run.values[of]}


class AgreementCourse(CheckedConfig):
    """When a training run is looked at, and how."""

    # training steps after which the model is looked at, beside the last one
    steps: tuple[NonNegativeInt, ...] = (0, 20, 50, 100, 150, 200, 250, 300, 400, 500, 700, 1000)
    sequences: PositiveInt = 8  # sequences that both modes solve
    length: PositiveInt = 64  # tokens of a sequence
    rtol: PositiveFloat = 1e-4  # relative tolerance of both modes, float64
    max_iterations: PositiveInt = 1000  # the most iterations of each mode
    answered: PositiveInt = 64  # sequences that accuracy is measured on
    seed: NonNegativeInt = 0  # seed of the sequences


def agreement_course(run: Run, settings: AgreementCourse) -> dict[str, Any]:
    """Train a run again and compare the modes after some steps.

    ``course`` has an entry for each step, ``training`` the self-iterations as training recorded them.
    """
    course = runs_on_the_way(run, settings.steps).items()
    return {
        "course": [{"step": step, **_agreement(seen, settings)} for step, seen in course],
        "training": training_course(run),
    }


def _agreement(run: Run, settings: AgreementCourse) -> dict[str, Any]:
    """Where the modes of a model agree, what they take, and how right it is in sequential mode."""
    how: dict[str, Any] = settings.model_dump(exclude={"steps", "answered"})
    agreement = compare_modes(run, **how, examples=0)
    modes = follow_both(run, **how).modes
    answered = LengthSettings(
        lengths=(settings.length,), sequences=settings.answered, mode="sequential", seed=settings.seed
    )
    lengths = accuracy(run, answered)
    return {
        **agreement.shares,
        "same_answer": float(agreement.same_answer.mean()),
        "iterations": {
            "sequential": float(modes["sequential"].iterations.mean()),
            "simultaneous": float(modes["simultaneous"].until(settings.length).mean()),
        },
        "share_converged": {mode: modes[mode].share_converged for mode in MODES},
        "accuracy": lengths["accuracy"][settings.length],
    }


class JacobianCourse(CheckedConfig):
    """When a training run is looked at, and at how many states."""

    # training steps after which the model is looked at, beside the last one
    steps: tuple[NonNegativeInt, ...] = (0, 10, 30, 60, 100, 150, 200, 300, 500, 700)
    states: PositiveInt = 8  # visited states at which Theorem 1 is checked
    sequences: PositiveInt = 8  # sequences that visit them
    length: PositiveInt = 32  # tokens of a sequence
    seed: NonNegativeInt = 0  # seed of the sequences


def jacobian_course(run: Run, settings: JacobianCourse) -> dict[str, Any]:
    """Train a run again and measure it after some steps: ``course``, an entry for each, in order."""
    course = runs_on_the_way(run, settings.steps).items()
    return {"course": [{"step": step, **_jacobians(seen, settings)} for step, seen in course]}


def _jacobians(run: Run, settings: JacobianCourse) -> dict[str, Any]:
    """The measurements of a model: Theorem 1 at visited states, the blocks of ds'/ds, and accuracy."""
    found = analyse(
        run, states=settings.states, sequences=settings.sequences, length=settings.length, seed=settings.seed
    )
    report = found.theorem1()
    how = LengthSettings(lengths=(settings.length,), sequences=64, mode="sequential", seed=settings.seed)
    lengths = accuracy(run, how)
    measured = ("off_diagonal_mass", "nonlinearity", "spectral_radius")
    return {
        "counts": report["counts"],
        **{name: report[name]["median"] if name in report else None for name in measured},
        "blocks": None if found.blocks is None else found.blocks.groups,
        "accuracy": lengths["accuracy"][settings.length],
        "share_converged": lengths["share_converged"][settings.length],
    }
