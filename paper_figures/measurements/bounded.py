"""Accuracy with the self-iterations of the bounded phase, and the cost of a training.

The cost of a training is counted in evaluations of the self-map, whatever else ran on the machine: from the
curriculum and from the self-iterations in the metrics, which hold some of the updates; between these they are
taken to change linearly. Evaluations with gradient are those that are differentiated: the unrolled
self-iterations of the bounded phase, the phantom steps of the free one or the one evaluation that the
implicit gradient starts from, and two for the contraction penalty. Not counted: the adjoint system of the
implicit gradient, the evaluation per token that the state after it takes in every phase, validation.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from analysis.length_generalization import LengthSettings
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.config.curriculum import Phase
from implicit.gradients import Phantom, Unrolled
from implicit.modes import Solve
from implicit.runs.folder import Metrics
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS, evaluate

GRADIENT_WEIGHT = 3
"""What an evaluation with gradient counts for: itself, and a backward pass of twice as many products."""


@dataclass(frozen=True)
class TrainingCost:
    """What a run cost."""

    updates: int  # of the weights
    bounded_updates: int  # those of the bounded phase
    tokens: int  # over all updates and sequences
    bounded_tokens: int  # those of the bounded phase
    without_gradient: float  # evaluations of the self-map at a token that were not differentiated
    with_gradient: int  # those that were
    mean_iterations: float | None  # of the search in the free phase, per token; None without a free phase

    @property
    def total(self) -> float:
        """All evaluations, those with gradient counted `GRADIENT_WEIGHT` times."""
        return self.without_gradient + GRADIENT_WEIGHT * self.with_gradient

    def numbers(self) -> dict[str, float | None]:
        """Return everything for JSON."""
        return {**asdict(self), "total": self.total}


def training_cost(run: Run) -> TrainingCost:
    """Count the evaluations of the self-map in the training of an implicit model.

    Raises:
        InputError: for a run whose lengths followed its accuracy, which are not recorded at every step, or
            one with penalties that solve for fixed points themselves.
    """
    config, curriculum = run.config, run.config.curriculum
    if curriculum.growth_accuracy is not None and curriculum.start_length is not None:
        raise InputError("growth_accuracy is set; give a run whose lengths follow the number of the step")
    for name, penalty in curriculum.penalties().items():
        if penalty.evaluations is None:
            raise InputError(f"{name}_weight is set, which solves for fixed points; give a run without it")
    updates = run.metrics[-1]["step"]
    phases = [curriculum.phase(step, config.length) for step in range(1, updates + 1)]
    tokens = np.array([config.batch_size * phase.length for phase in phases])
    bounded = np.array([phase.name == "bounded" for phase in phases])
    sought = np.where(bounded, 1.0, _sought(run, updates))  # one measures the residual of an unrolled iterate
    with_gradient = np.array([_with_gradient(phase) for phase in phases])
    free = int(tokens[~bounded].sum())
    return TrainingCost(
        updates,
        int(bounded.sum()),
        int(tokens.sum()),
        int(tokens[bounded].sum()),
        float((tokens * sought).sum()),
        int((tokens * with_gradient).sum()),
        float((tokens * sought)[~bounded].sum()) / free if free else None,
    )


def _sought(run: Run, updates: int) -> NDArray[np.float64]:
    """Self-iterations per token of every update, as if it were free, without gradient."""
    free = [entry for entry in run.metrics if entry["phase"] == "free"]
    if not free:
        return np.zeros(updates)
    steps, found = np.arange(1, updates + 1), [entry["step"] for entry in free]
    each = np.interp(steps, found, [entry["mean_iterations"] for entry in free])
    if run.config.curriculum.random_starts > 0:
        # Latents of other tokens are starts: all were first sought from zero, which validation does as well.
        each += np.interp(steps, found, [_from_zero(run, entry) for entry in free])
    return each


def _from_zero(run: Run, entry: Metrics) -> float:
    """Self-iterations from zero when a step was recorded: those of validation, if to the same tolerance."""
    config = run.config
    if config.evaluation.rtol != config.curriculum.free_rtol:
        raise InputError(
            f"evaluation_rtol is {config.evaluation.rtol}; give a run with that of training, "
            f"{config.curriculum.free_rtol}"
        )
    return float(entry["validation"][str(config.length)]["mean_iterations"])


def _with_gradient(phase: Phase) -> int:
    if isinstance(phase.gradient, Unrolled):
        return phase.gradient.iterations
    steps = phase.gradient.steps if isinstance(phase.gradient, Phantom) else 1
    return steps + sum(penalty.evaluations or 0 for penalty in phase.penalties.values())


BOUNDED_ITERATIONS = 4  # Self-iterations of the bounded phase, in small runs and at the size of the paper


class BoundedSettings(CheckedConfig):
    """How accuracy is measured with so many self-iterations, no more and no less."""

    iterations: PositiveInt = BOUNDED_ITERATIONS  # sweeps over the sequence, from zero
    # lengths and sequences; their mode and tolerance are not read
    lengths: LengthSettings = LengthSettings(lengths=(32, 512), sequences=256, mode="sequential", seed=0)


def measure_bounded(run: Run, settings: BoundedSettings) -> dict[str, dict[str, float]]:
    """Measure accuracy by length with the self-iterations of the bounded phase, on the same sequences."""
    chosen = settings.lengths
    found = evaluate(
        run.model,
        run.task,
        max(chosen.lengths),
        sequences=chosen.sequences,
        batch_size=chosen.batch_size,
        seed=chosen.seed,
        solve=Solve(gradient=Unrolled(settings.iterations)),
        warn=False,  # they are not meant to converge
    )
    last = {length: slice(max(0, length - REPORTED_TOKENS), length) for length in chosen.lengths}
    by_length = {str(length): float(found.correct[:, tokens].mean()) for length, tokens in last.items()}
    return {"bounded_accuracy": by_length}


def measure_cost(run: Run, settings: None) -> dict[str, dict[str, float | None]]:  # noqa: ARG001
    """Count what the training of a run cost."""
    return {"cost": training_cost(run).numbers()}
