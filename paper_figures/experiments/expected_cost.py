"""What an experiment that was not run would cost, counted from its settings."""

import json
from functools import cache

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

    The most there can be: every token takes all self-iterations that the free phase allows, and the exact
    gradient forms the derivative of the self-map by columns, one for each entry of the latent.

    Example:
        >>> settings = {"task": "parity", "seed": 0, "steps": 200, "bounded_steps": 100}
        >>> settings |= {"bounded_iterations": 4, "free_max_iterations": 32}
        >>> settings |= {"free_gradient": "phantom", "phantom_steps": 4, "d_model": 32}
        >>> evaluations_per_token(Point({**settings, "model": "mamba2"}))
        3.0
        >>> evaluations_per_token(Point({**settings, "model": "implicit-mamba2"}))
        28.0

        With the exact gradient 32 + 3 + 32 in the free half:

        >>> settings |= {"model": "implicit-mamba2", "free_gradient": "implicit"}
        >>> evaluations_per_token(Point(settings))
        39.5
    """
    config = point.config
    if not issubclass(model_class(config.model), FixedPointModel):
        return float(FORWARD_AND_BACKWARD)
    curriculum = config.curriculum
    bounded = min(curriculum.bounded_steps, config.steps) / config.steps
    phantom = FORWARD_AND_BACKWARD * curriculum.phantom_steps
    exact = FORWARD_AND_BACKWARD + config.sizes["d_model"]
    free = curriculum.free_max_iterations + (phantom if curriculum.free_gradient == "phantom" else exact)
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
    tokens = config.steps * config.batch_size * config.length
    return 2.0 * _parameters(_initial(point)) * tokens * evaluations_per_token(point)


def _initial(point: Point) -> str:
    """What determines the shapes of the weights, for the cache: task, model and sizes, without the seed."""
    config = point.config
    return json.dumps({"task": config.task, "model": config.model, "sizes": config.sizes})


@cache
def _parameters(initial: str) -> int:
    config = Point({**json.loads(initial), "seed": 0}).config
    return initial_model(config, config.build_task()).parameter_count()


def expected_cost(experiment: Experiment) -> str:
    """Say how many runs there are, how many operations the training takes at most, and how long that may be.

    Example:
        >>> from paper_figures.experiments.grid import Grid, Measurement
        >>> grid = Grid({"seed": range(3)}, {"task": "parity", "model": "lstm", "steps": 200})
        >>> expected_cost(Experiment("lstm", (grid,), ()))
        '3 runs, about ... operations to train: 0 h on a GPU at 10 TFLOP/s (assumed, not measured)'
        >>> course = Measurement("course", lambda run, settings: None, trains_again=True)
        >>> expected_cost(Experiment("lstm", (grid,), (course,)))
        '3 runs, trained twice, about ... operations to train: 0 h on a GPU at 10 TFLOP/s (...)'
    """
    again = any(measurement.trains_again for measurement in experiment.measurements)
    operations = (2 if again else 1) * sum(training_operations(point) for point in experiment.points)
    hours = operations / ASSUMED_RATE / 3600
    return (
        f"{len(experiment.points)} runs, {'trained twice, ' if again else ''}about {operations:.1e} "
        f"operations to train: {hours:.0f} h on a GPU at {ASSUMED_RATE / 1e12:.0f} TFLOP/s (assumed, not "
        "measured)"
    )
