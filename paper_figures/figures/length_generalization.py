"""Accuracy against length on parity: several seeds of implicit Mamba-2, explicit Mamba-2 and LSTM."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import GREY, MODEL_COLORS, powers_of_two
from analysis.framework.output import json_ready
from analysis.length_generalization import LengthSettings, analyse
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.figures.figure import PaperFigure, Results, RunRecipe, Runs

SEEDS = {"implicit-mamba2": (0, 1, 2, 3, 4), "mamba2": (0, 1, 2), "lstm": (0, 1, 2)}
SETTINGS = LengthSettings(lengths=(32, 64, 128, 256, 512), sequences=512, mode="sequential", seed=0)
LABELS = {"implicit-mamba2": "implicit Mamba-2", "mamba2": "explicit Mamba-2", "lstm": "LSTM"}
MARKERS = {"implicit-mamba2": "o", "mamba2": "s", "lstm": "^"}
DASHES = {"implicit-mamba2": "-", "mamba2": "-", "lstm": "--"}
SOLVED_LENGTH = 256
SOLVED_ACCURACY = 0.99
"""A run solves parity if it is this accurate at that length."""


def compute(runs: Runs) -> Results:
    """Measure the accuracy of every run at every length, and count those that solve parity.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> wanted, task = RunRecipe("parity", "lstm", seed=0), make_task("parity")
        >>> config = recipe("parity", "lstm", d_model=4)
        >>> untrained = Run(Path(wanted.name), config, initial_model(config, task), task, [])
        >>> compute({wanted: untrained})["solved"]["lstm"]
        {'length': 256, 'accuracy': 0.99, 'runs': 0, 'of': 1}
    """
    measured = json_ready(analyse(runs.values(), SETTINGS).numbers())
    by_model: dict[str, dict[str, Any]] = {model: {} for model in SEEDS}
    for wanted in runs:
        by_model[wanted.model][str(wanted.seed)] = {
            "command": wanted.command,
            **{key: measured[wanted.name][key] for key in ("accuracy", "interval", "share_converged")},
        }
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training_length": next(iter(runs.values())).config.length,
        "chance": next(iter(measured.values()))["chance"],
        "solved": {
            model: {
                "length": SOLVED_LENGTH,
                "accuracy": SOLVED_ACCURACY,
                "runs": sum(accuracy_at(run, SOLVED_LENGTH) >= SOLVED_ACCURACY for run in seeds.values()),
                "of": len(seeds),
            }
            for model, seeds in by_model.items()
        },
        "models": by_model,
    }


def accuracy_at(run: dict[str, Any], length: int) -> float:
    """Return the stored accuracy of a run at a length.

    Example:
        >>> accuracy_at({"accuracy": {"32": 1.0, "256": 0.75}}, 256)
        0.75
    """
    return float(run["accuracy"][str(length)])


def draw(found: Results) -> Figure:
    """Draw every run as a thin line and the mean of each model's runs as a thick one.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("length_generalization").results).axes) >= 1
        True
    """
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    lengths = found["settings"]["lengths"]
    for model, seeds in found["models"].items():
        _draw_model(
            axes, model, np.array([[accuracy_at(run, n) for n in lengths] for run in seeds.values()]), lengths
        )
    axes.axhline(found["chance"], color=GREY, linewidth=0.9, linestyle=":", label="chance")
    axes.axvline(found["training_length"], color=GREY, linewidth=0.9, linestyle="--", label="training length")
    powers_of_two(axes, lengths)
    axes.set(
        xlabel="sequence length (tokens)",
        ylabel=f"accuracy (share of the last {found['reported_tokens']} tokens)",
        ylim=(0.4, 1.03),
        title="Parity: train short, test long",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))  # beside the lines, which may go anywhere
    return figure


def _draw_model(axes: Axes, model: str, accuracies: Any, lengths: list[int]) -> None:
    color = MODEL_COLORS[model]
    axes.plot(lengths, accuracies.T, DASHES[model], color=color, linewidth=0.8, alpha=0.7)
    label = f"{LABELS[model]}, mean of {len(accuracies)} runs"
    style = MARKERS[model] + DASHES[model]
    axes.plot(lengths, accuracies.mean(axis=0), style, color=color, linewidth=2.2, label=label)


def caption(found: Results) -> str:
    """Tell what is drawn and how many runs solve the task.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("length_generalization").results))
        Accuracy on parity against length: ...
    """
    settings = found["settings"]
    solved = "; ".join(
        f"{LABELS[model]}: {counts['runs']} of {counts['of']}" for model, counts in found["solved"].items()
    )
    return (
        f"Accuracy on parity against length: mean over the last {found['reported_tokens']} tokens of "
        f"{settings['sequences']} fresh sequences (data seed {settings['seed']}), implicit models in "
        f"{settings['mode']} mode. Thin lines are single runs, thick ones their mean. Trained at length "
        f"{found['training_length']}. Runs with an accuracy of at least {SOLVED_ACCURACY} at length "
        f"{SOLVED_LENGTH}: {solved}."
    )


FIGURE = PaperFigure(
    name="length_generalization",
    title="Accuracy against length on parity",
    runs=tuple(RunRecipe("parity", model, seed) for model, seeds in SEEDS.items() for seed in seeds),
    compute=compute,
    draw=draw,
    caption=caption,
)
