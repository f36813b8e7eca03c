"""The models that figures of sessions and beliefs compare: settings, labels and looks of each family."""

from typing import Any

from analysis.framework.palette import MODEL_LOOKS, Look, model_label
from paper_figures.figure import Grid, Settings

REFLECTING = {"negative_eigenvalues": True}
"""Eigenvalues of a delta rule in [-1, 1], so that a step can reflect, as a swap does."""
NOT_REFLECTING = {"negative_eigenvalues": False}
RANGES = {True: "[-1, 1]", False: "[0, 1]"}
RATE = 3e-3
COMMON: dict[str, Any] = {
    "d_model": 64,
    "learning_rate": RATE,
    "gradient_clip": 1.0,
    "carried_share": 0.0,
    "bounded_steps": 0,
    "bounded_length": 40,
    "bounded_iterations": 8,
    "free_max_iterations": 60,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "contraction_weight": 0.003,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
    "evaluation_sequences": 32,
    "evaluate_every": 100,
}
"""The settings of all runs on sessions; explicit models ignore those of fixed points."""
IMPLICIT: dict[str, Any] = {"learning_rate": 2e-3, "gradient_clip": 0.25}
"""A lower rate for implicit Mamba-2, which diverged at that of the others in a trial."""

REFLECTING_DELTANET: dict[str, Any] = {"model": "deltanet", "layers": 2, **REFLECTING}
PLAIN_DELTANET: dict[str, Any] = {"model": "deltanet", "layers": 2, **NOT_REFLECTING}
GATED_DELTANET: dict[str, Any] = {"model": "gated-deltanet", "layers": 2, **REFLECTING}
GATED_DELTAPRODUCT: dict[str, Any] = {"model": "gated-deltaproduct", "layers": 2, **REFLECTING}
TRANSFORMER: dict[str, Any] = {"model": "transformer", "layers": 2}
LSTM: dict[str, Any] = {"model": "lstm", "layers": 1, "d_model": 128}
MAMBA2: dict[str, Any] = {"model": "mamba2", "layers": 2}
IMPLICIT_MAMBA2: dict[str, Any] = {"model": "implicit-mamba2", "layers": 1, **IMPLICIT}
COMPARED = (REFLECTING_DELTANET, PLAIN_DELTANET, TRANSFORMER, LSTM, IMPLICIT_MAMBA2)
"""The models of every figure of sessions and puzzles, in their order."""


def seeds_of(*models: dict[str, Any], **settings: Any) -> tuple[Grid, ...]:
    """Return a grid of three seeds for each model, in these settings.

    Example:
        >>> [len(grid.points) for grid in seeds_of(LSTM, TRANSFORMER, **COMMON, task="repl-3-values")]
        [3, 3]
    """
    return tuple(Grid({"seed": range(3)}, {**settings, **model}) for model in models)


def family(settings: Settings) -> str:
    """Return the label of a row: the model, its eigenvalues, and an unusual learning rate.

    Example:
        >>> family({"model": "deltanet", "negative_eigenvalues": True, "learning_rate": 0.003})
        'DeltaNet [-1, 1]'
        >>> family({"model": "transformer", "learning_rate": 0.001})
        'Transformer, rate 0.001'
    """
    name = model_label(settings["model"]).removeprefix("explicit ")
    if settings.get("negative_eigenvalues") is not None:
        name += f" {RANGES[settings['negative_eigenvalues']]}"
    rate = settings.get("learning_rate", RATE)
    usual = rate == RATE or settings["model"].startswith("implicit-")
    return name if usual else f"{name}, rate {rate:g}"


def look(settings: Settings) -> Look:
    """Return the look of a family: that of its model, dashed with crosses where eigenvalues are not negative.

    Example:
        >>> look({"model": "deltanet", "negative_eigenvalues": False}).marker
        'x'
    """
    of_model = MODEL_LOOKS[settings["model"]]
    if settings.get("negative_eigenvalues") is False:
        return Look(of_model.color, "x", (0, (4, 1.2)))
    return of_model
