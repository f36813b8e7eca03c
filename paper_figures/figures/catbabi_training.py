"""catbAbI for one explicit and one implicit layer, deeper explicit ones and an LSTM: the training runs."""

from typing import Any

from automata.data_files import DATA_VARIABLE
from paper_figures.experiments.grid import Grid
from paper_figures.experiments.point import Point

FILE = f"${DATA_VARIABLE}/babi/en-valid-10k.tar.gz"
DIGEST = "9f7fe3a1f20fe8ed177f01b51f6f9ea0a268430e9c8a6b6817dfc65d369f83fa"
"""Of the stories, without the training file of task 3 and without the last story of every file."""
NOT_TRAINED = 3
"""The task whose training stories are missing."""
PIECE = 200
"""Tokens that are read at a time, in training and test."""

SETTINGS_OF_STATE = {
    "catbabi-answers-carried": "answers, state carried",
    "catbabi-words-carried": "all words, state carried",
    "catbabi-answers-reset": "answers, state reset",
    "catbabi-words-reset": "all words, state reset",
}
"""What is in the loss, and whether the state goes on from piece to piece, in training and in the test."""


def specification(task: str) -> dict[str, Any]:
    """Return what rebuilds one of the tasks.

    Example:
        >>> specification("catbabi-answers-reset")["begins"]
        'anywhere'
    """
    _, asked, state = task.split("-")
    return {
        "catbabi": FILE,
        "predict": {"answers": "answers", "words": "all"}[asked],
        **({"begins": "anywhere"} if state == "reset" else {}),
        "sha256": DIGEST,
        "name": task,
        "description": SETTINGS_OF_STATE[task],
    }


class StoryPoint(Point):
    """A run on one of the tasks, whose names stand for how the stories are read.

    Example:
        >>> point = StoryPoint({"task": "catbabi-answers-carried", "model": "lstm", "seed": 0}, TRAINING)
        >>> point.config.curriculum.carried_share, point.name
        (1.0, 'catbabi-answers-carried-lstm-seed-0')
    """

    @property
    def all_settings(self) -> dict[str, Any]:
        """Everything that was chosen, the task as what rebuilds it, the seed last."""
        settings = super().all_settings
        share = 1.0 if settings["task"].endswith("carried") else 0.0
        seed = settings.pop("seed")
        return {**settings, "task": specification(settings["task"]), "carried_share": share, "seed": seed}


TRAINING: dict[str, Any] = {
    "length": PIECE,
    "batch_size": 32,
    "steps": 1200,
    "learning_rate": 6e-3,
    "gradient_clip": 1.0,
    "bounded_steps": 0,
    "free_max_iterations": 24,
    "free_rtol": 0.05,
    "free_gradient": "phantom",
    "phantom_steps": 4,
    "contraction_weight": 0.0,
    "carried_after": 0,
    "carried_always": True,
    "evaluate_every": 400,
    "evaluation_sequences": 32,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 64,
}
SIZES: dict[str, Any] = {"d_model": 64, "expand": 2, "d_state": 32, "head_size": 32, "d_conv": 4}
MODELS: tuple[dict[str, Any], ...] = (
    {"model": "mamba2", "layers": 1, **SIZES},
    {"model": "mamba2", "layers": 2, **SIZES},
    {"model": "mamba2", "layers": 4, **SIZES},
    {"model": "implicit-mamba2", "layers": 1, **SIZES},
    {"model": "lstm", "layers": 1, "d_model": 128},
)
SEEDS = range(3)
GRIDS = tuple(
    Grid(
        {name: [value] for name, value in {"task": task, **model, "seed": seed}.items()},
        TRAINING,
        StoryPoint,
    )
    for state in ("carried", "reset")
    for seed in SEEDS
    for task in SETTINGS_OF_STATE
    if task.endswith(state)
    for model in MODELS
)
"""The settings of the protocol first, seed by seed."""
