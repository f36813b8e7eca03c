"""What an experiment that was not run would cost, counted from its settings."""

from implicit.models.interface import FixedPointModel
from implicit.models.registry import model_class
from implicit.runs.loading import initial_model
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.point import Point

FORWARD_AND_BACKWARD = 3
"""The gradient of products of matrices takes twice as many operations as the products."""
ASSUMED_RATE = 10e12
"""Floating-point operations per second that a GPU is assumed to do on models of this size; not measured."""


def evaluations_per_token(point: Point) -> float:
    """Return how often a layer is evaluated per token in training, gradients counted as two evaluations.

    The most there can be: every token takes all self-iterations that the free phase allows.

    Example:
        >>> settings = {"task": "parity", "seed": 0, "steps": 200, "bounded_steps": 100}
        >>> settings |= {"bounded_iterations": 4, "free_max_iterations": 32}
        >>> settings |= {"free_gradient": "phantom", "phantom_steps": 4}
        >>> evaluations_per_token(Point({**settings, "model": "mamba2"}))
        3.0
        >>> evaluations_per_token(Point({**settings, "model": "implicit-mamba2"}))
        28.0
    """
    config = point.config
    if not issubclass(model_class(config.model), FixedPointModel):
        return float(FORWARD_AND_BACKWARD)
    curriculum = config.curriculum
    bounded = min(curriculum.bounded_steps, config.steps) / config.steps
    with_gradient = curriculum.phantom_steps if curriculum.free_gradient == "phantom" else 1
    free = curriculum.free_max_iterations + FORWARD_AND_BACKWARD * with_gradient
    return bounded * FORWARD_AND_BACKWARD * curriculum.bounded_iterations + (1 - bounded) * free


def training_operations(point: Point) -> float:
    """Return the floating-point operations of the products with parameters in a training run, at most.

    Two per parameter, token and evaluation, also of what is evaluated once per token, such as the injection;
    scans and attention are left out.

    Example:
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 0, "steps": 200, "d_model": 4})
        >>> training_operations(point) == 2 * 178 * 200 * 64 * 32 * 3
        True
    """
    config = point.config
    parameters = initial_model(config, config.build_task()).parameter_count()
    tokens = config.steps * config.batch_size * config.length
    return 2.0 * parameters * tokens * evaluations_per_token(point)


def expected_cost(experiment: Experiment) -> str:
    """Say how many runs there are, how many operations the training takes at most, and how long that may be.

    Example:
        >>> from paper_figures.experiments.grid import Grid
        >>> grid = Grid({"seed": range(3)}, {"task": "parity", "model": "lstm", "steps": 200})
        >>> expected_cost(Experiment("lstm", (grid,), ()))
        '3 runs, about ... operations to train: 0 h on a GPU at 10 TFLOP/s (assumed, not measured)'
    """
    operations = sum(training_operations(point) for point in experiment.points)
    hours = operations / ASSUMED_RATE / 3600
    return (
        f"{len(experiment.points)} runs, about {operations:.1e} operations to train: {hours:.0f} h on a "
        f"GPU at {ASSUMED_RATE / 1e12:.0f} TFLOP/s (assumed, not measured)"
    )
