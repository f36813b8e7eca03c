"""Accuracy with the self-iterations of the bounded phase, and what a training cost."""

from pydantic import ConfigDict, Field, PositiveInt

from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.gradients import Unrolled
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS, evaluate
from paper_figures.measurements.training_cost import training_cost

BOUNDED_ITERATIONS = 4
"""Of the bounded phase, small and at the size of the paper."""


class BoundedSettings(CheckedConfig):
    """How accuracy is measured with so many self-iterations, no more and no less.

    Example:
        >>> BoundedSettings().iterations
        4
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    iterations: PositiveInt = Field(
        default=BOUNDED_ITERATIONS, description="sweeps over the sequence, from zero"
    )
    lengths: LengthSettings = Field(
        default=LengthSettings(lengths=(32, 512), sequences=256, mode="sequential", seed=0),
        description="lengths and sequences; their mode and tolerance are not read",
    )


def measure_bounded(run: Run, settings: BoundedSettings) -> dict[str, dict[str, float]]:
    """Measure accuracy by length with the self-iterations of the bounded phase, on the same sequences.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = BoundedSettings(iterations=32, lengths=LengthSettings(lengths=(4, 8), sequences=4))
        >>> measure_bounded(load_run("parity"), small)
        {'bounded_accuracy': {'4': 1.0, '8': 1.0}}
    """
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
    """Count what the training of a run cost.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> measure_cost(load_run("parity"), None)["cost"]["updates"]
        1500
    """
    return {"cost": training_cost(run).numbers()}
