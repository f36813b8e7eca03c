"""Experiments of tiny LSTMs, in a module of their own that other processes can import."""

import os
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from implicit.runs.loading import Run
from implicit.training.evaluation import evaluate
from paper_figures.experiments.grid import Experiment, Grid, Measurement

ROOT = Path(__file__).parents[3]
LSTM: dict[str, Any] = {"task": "parity", "model": "lstm", "d_model": 4, "batch_size": 2, "length": 4}
LSTM |= {"steps": 4, "warmup_steps": 1, "evaluate_every": 2, "checkpoint_every": 2, "evaluation_sequences": 2}


class Length(BaseModel):
    """The length to measure at."""

    length: int = 8


class Log(BaseModel):
    """Where to write who measured what, and how long to take."""

    path: str
    seconds: float = 0.0


def accuracy(run: Run, settings: Length) -> dict[str, Any]:
    """Measure the accuracy on a few sequences."""
    found = evaluate(run.model, run.task, settings.length, sequences=8)
    return {"accuracy": found.accuracy, "per_position": found.per_position}


def logged(run: Run, settings: Log) -> str:
    """Write down who measured which run: a line is added in one stroke."""
    time.sleep(settings.seconds)
    with open(settings.path, "a") as file:
        file.write(f"{os.getpid()} {run.path.name}\n")
    return "logged"


def experiment(seeds: int = 2, *measurements: Measurement, **settings: Any) -> Experiment:
    """Return an experiment of some seeds; it measures accuracy if nothing else is asked for."""
    taken = measurements or (Measurement("accuracy", accuracy, Length()),)
    return Experiment("tiny", (Grid({"seed": range(seeds)}, {**LSTM, **settings}),), taken)
