"""How the runs of a figure were trained, read from what was run, for captions that are true at any size.

A small grid has a recipe of its own, which its caption words by hand. At the size of the paper the training
is that of `paper_figures.figures.published_setting` in every figure, and so are the words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point

Training = Mapping[str, Any]
"""The settings of a training run that captions speak of, by name."""


def trained_as(outcomes: Sequence[Outcome], experiment: Experiment) -> dict[str, Any]:
    """Return how the first of the runs was trained; the first of an experiment if there is none.

    Args:
        outcomes: what came of the points of a grid that have most settings in common.
        experiment: the small one, whose first point stands for results that do not tell.

    Example:
        >>> from paper_figures.experiments.grid import Grid
        >>> grid = Grid({"seed": range(3)}, {"task": "S3", "model": "implicit-mamba2", "steps": 700})
        >>> found = trained_as([], Experiment("one", (grid,), ()))
        >>> found["task"], found["steps"], found["length"], found["width"], found["growth_accuracy"]
        ('S3', 700, 32, 32, 0.97)
    """
    return training_settings(outcomes[0].point if outcomes else experiment.points[0])


def training_settings(point: Point) -> dict[str, Any]:
    """Return the settings of a point's training that captions speak of.

    Example:
        >>> point = Point({"task": "S3", "model": "implicit-mamba2", "steps": 700, "seed": 0})
        >>> training_settings(point)["steps"]
        700
    """
    config, curriculum = point.config, point.config.curriculum
    return {
        "task": str(config.task),
        "length": config.length,
        "batch_size": config.batch_size,
        "steps": config.steps,
        "width": config.sizes["d_model"],
        "learning_rate": config.optimizer.learning_rate,
        "evaluate_every": config.evaluation.every,
        **{
            name: getattr(curriculum, name)
            for name in (
                "bounded_steps",
                "bounded_iterations",
                "free_max_iterations",
                "free_rtol",
                "phantom_steps",
                "contraction_weight",
                "carried_share",
                "start_length",
                "growth_accuracy",
            )
        },
    }


def training_of(found: Mapping[str, Any], experiment: Experiment) -> Training:
    """Return the training that results tell; that of a small experiment for results from before they did.

    Args:
        found: the results of a figure.
        experiment: its small one.

    Example:
        >>> training_of({"training": {"steps": 16384}}, Experiment("one", (), ()))
        {'steps': 16384}
    """
    told: Training | None = found.get("training")
    return trained_as([], experiment) if told is None else told


def is_small(training: Training, experiment: Experiment) -> bool:
    """Return whether runs were trained as some of a small experiment.

    Example:
        >>> from paper_figures.experiments.grid import Grid
        >>> small = Experiment("one", (Grid({"seed": [0]}, {"task": "parity", "model": "lstm"}),), ())
        >>> is_small(trained_as([], small), small), is_small({"steps": 16384}, small)
        (True, False)
    """
    return any(dict(training) == training_settings(point) for point in experiment.points)


def updates_words(training: Training) -> str:
    """Say how many updates there were, of what, and of how wide a model.

    Example:
        >>> updates_words({"steps": 16384, "batch_size": 512, "length": 32, "width": 256})
        '16,384 updates of 512 sequences of 32 tokens, width 256'
    """
    return (
        f"{training['steps']:,} updates of {training['batch_size']} sequences of {training['length']} "
        f"tokens, width {training['width']}"
    )


def of_free_phase(training: Training) -> str:
    """Say that what was recorded in training is of the free phase only, where there is another one.

    Example:
        >>> of_free_phase({"bounded_steps": 4005}), of_free_phase({"bounded_steps": 0})
        (' of the free phase', '')
    """
    return " of the free phase" if training["bounded_steps"] else ""


def free_words(training: Training, gradient: str | None = None) -> str:
    """Say how the free phase seeks fixed points, and how it differentiates them.

    Args:
        training: as `trained_as` returns it.
        gradient: the rule, where it is not the phantom gradient.

    Example:
        >>> free_words({"free_max_iterations": 32, "free_rtol": 0.05, "phantom_steps": 4})
        'at most 32 to a relative tolerance of 0.05 and phantom gradients of 4 steps'
    """
    rule = gradient or f"phantom gradients of {training['phantom_steps']} steps"
    tolerance = f"{training['free_rtol']:g}"
    return f"at most {training['free_max_iterations']} to a relative tolerance of {tolerance} and {rule}"


def phases_words(training: Training, gradient: str | None = None) -> str:
    """Say what the two phases of the training were.

    Args:
        training: as `trained_as` returns it.
        gradient: the rule of the free phase, where it is not the phantom gradient.

    Example:
        >>> phases_words(
        ...     {"bounded_steps": 4005, "bounded_iterations": 4, "free_max_iterations": 32, "free_rtol": 0.05,
        ...      "phantom_steps": 4}
        ... )
        'the first 4,005 updates through 4 unrolled self-iterations, the others through at most 32 to a ...'
    """
    return (
        f"the first {training['bounded_steps']:,} updates through {training['bounded_iterations']} unrolled "
        f"self-iterations, the others through {free_words(training, gradient)}"
    )


def left_out_words(training: Training) -> str:
    """Say which parts of the small recipes there were not; a sentence, or nothing.

    Example:
        >>> left_out_words({"contraction_weight": 0.0, "carried_share": 0.0})
        'No penalty on the self-map, no state passing.'
        >>> left_out_words({"contraction_weight": 0.02, "carried_share": 0.9})
        ''
    """
    missing = [
        name
        for setting, name in (
            ("contraction_weight", "penalty on the self-map"),
            ("carried_share", "state passing"),
        )
        if not training[setting]
    ]
    return f"No {', no '.join(missing)}." if missing else ""


def published_sentences(training: Training, gradient: str | None = None) -> str:
    """Tell a training at the size of the paper.

    Args:
        training: as `trained_as` returns it.
        gradient: the rule of the free phase, where it is not the phantom gradient.

    Example:
        >>> from paper_figures.experiments.grid import Grid
        >>> from paper_figures.figures.published_setting import PUBLISHED_MAMBA2, PUBLISHED_TRAINING
        >>> base = {**PUBLISHED_TRAINING, **PUBLISHED_MAMBA2, "task": "parity", "model": "implicit-mamba2"}
        >>> print(published_sentences(trained_as([], Experiment("one", (Grid({"seed": [0]}, base),), ()))))
        All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 updates ...
    """
    told = f"All models: {updates_words(training)}; {phases_words(training, gradient)}."
    return f"{told} {left_out_words(training)}".strip()
