"""A finished training run, read back from its folder or from those stored in the package."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from automata.checks import check_type
from automata.errors import InputError, unknown_name
from automata.tasks.interface import Task
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.models.registry import build_model
from implicit.runs.files import check_tensors, read_tensors
from implicit.runs.folder import Metrics, RunFolder

STORED_RUNS = Path(__file__).parents[1] / "stored_runs"
"""Runs that come with the package, by name."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training run.

    Attributes:
        path: its folder.
        config: what determined it.
        model: the trained model, float32, in evaluation mode.
        task: what it was trained on.
        metrics: one entry per evaluation, in order.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.config.recipes import recipe
        >>> from implicit.train import train
        >>> with TemporaryDirectory() as folder:
        ...     train(recipe("parity", "lstm", steps=2, warmup_steps=1), Path(folder) / "run", progress=False)
        ...     run = load_run(Path(folder) / "run")
        Run(...)
        >>> run.task, run.config.steps, run.metrics[-1]["step"], run.model.training
        (<WordProblem parity: 2 tokens, 2 states>, 2, 2, False)
    """

    path: Path
    config: TrainConfig
    model: SequenceModel
    task: Task
    metrics: list[Metrics]


def load_run(path_or_name: str | os.PathLike[str]) -> Run:
    """Load a finished run.

    Nothing is unpickled. Where the run's task or model is code of your own, its module is imported.

    Args:
        path_or_name: a run folder, or, where no such folder exists, the name of a run stored in the package.

    Raises:
        InputError: for a missing folder or file, an unfinished run, corrupt JSON or safetensors, a
            configuration with unknown or bad fields, a task or a model of your own that cannot be imported,
            and weights that do not fit it (missing, unexpected, of
            another shape or dtype) or are not finite.

    Example:
        >>> load_run("no/such/run")
        Traceback (most recent call last):
        automata.errors.InputError: run no/such/run does not exist; make one with python -m implicit.train ...
    """
    folder = RunFolder(_find(path_or_name))
    config = folder.read_config()
    if not folder.finished:
        if folder.checkpoint_file.is_file():
            raise InputError(
                f"run {folder.path} is not finished; "
                f"finish it with python -m implicit.train --resume --out {folder.path}"
            )
        raise InputError(f"{folder.weights_file} is missing; restore it or train again")
    metrics = folder.read_metrics()
    task = config.build_task()
    model = initial_model(config, task)
    weights, _ = read_tensors(folder.weights_file)
    check_tensors(folder.weights_file, weights, model.state_dict())
    model.load_state_dict(weights)
    if config.compiled is not None and model.implicit is not None:
        model.implicit.without_kernels()  # which what is proved of executed floats speaks of
    return Run(folder.path, config, model.eval(), task, metrics)


def initial_model(config: TrainConfig, task: Task) -> SequenceModel:
    """Return the model with the initial weights of its seed, leaving the global generator alone.

    Raises:
        InputError: for sizes that do not divide.

    Example:
        >>> config = TrainConfig.of(task="parity", model="lstm", seed=3)
        >>> first, second = (initial_model(config, config.build_task()) for _ in range(2))
        >>> bool((first.embedding.weight == second.embedding.weight).all())
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return build_model(config.model, config.sizes, task)


def _find(path_or_name: str | os.PathLike[str]) -> Path:
    check_type("run", path_or_name, (str, os.PathLike), "give a run folder or the name of a stored run")
    path = Path(path_or_name)
    if os.path.isdir(path):  # False for names that no file system takes, which Path raises on
        return path
    if os.path.exists(path):
        raise InputError(f"run {path} is a file; give the folder that holds it")
    stored = [folder.name for folder in STORED_RUNS.iterdir()] if STORED_RUNS.is_dir() else []
    if path.name == os.fspath(path_or_name):
        if path.name in stored:
            return STORED_RUNS / path.name
        if stored:
            raise unknown_name("run", path.name, stored)
    raise InputError(f"run {path} does not exist; make one with python -m implicit.train --out {path}")
